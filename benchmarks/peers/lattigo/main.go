// Sums of columns by Lattigo's CKKS: FILE ROWS COLUMNS GOROUTINES, float64 column after column. Complex slots, N = 4096
// and one prime, encrypted under the secret key; what is sent is marshalled and read back. Prints JSON, keys not timed.
package main

import (
	"encoding/binary"
	"encoding/json"
	"log"
	"math"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	must(err)
	return value
}

// processor tells the seconds of processors this process has taken.
func processor() float64 {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func main() {
	raw, err := os.ReadFile(os.Args[1])
	must(err)
	rows, columns, routines := number(os.Args[2]), number(os.Args[3]), number(os.Args[4])
	values := make([]float64, rows*columns)
	for i := range values {
		values[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
	}
	params, err := ckks.NewParametersFromLiteral(ckks.ParametersLiteral{LogN: 12, LogQ: []int{58}, LogDefaultScale: 38})
	must(err)
	secret := rlwe.NewKeyGenerator(params).GenSecretKeyNew()

	started, before := time.Now(), processor()
	var sent int64
	perCiphertext := 2 * params.MaxSlots()
	parts := (rows + perCiphertext - 1) / perCiphertext
	totals := make([]*rlwe.Ciphertext, columns*routines)
	var all sync.WaitGroup
	for routine := 0; routine < routines; routine++ {
		all.Add(1)
		go func() {
			defer all.Done()
			// none of these may be shared
			encryptor, encoder := rlwe.NewEncryptor(params, secret), ckks.NewEncoder(params)
			evaluator := ckks.NewEvaluator(params, nil)
			slots := make([]complex128, params.MaxSlots())
			for column := 0; column < columns; column++ {
				for part := routine; part < parts; part += routines {
					for i := range slots {
						var pair [2]float64
						for half := range pair {
							if row := part*perCiphertext + 2*i + half; row < rows {
								pair[half] = values[column*rows+row]
							}
						}
						slots[i] = complex(pair[0], pair[1])
					}
					plaintext := ckks.NewPlaintext(params, params.MaxLevel())
					must(encoder.Encode(slots, plaintext))
					ciphertext, err := encryptor.EncryptNew(plaintext)
					must(err)
					upload, err := ciphertext.MarshalBinary()
					must(err)
					atomic.AddInt64(&sent, int64(len(upload)))
					received := new(rlwe.Ciphertext)
					must(received.UnmarshalBinary(upload))
					if total := totals[column*routines+routine]; total == nil {
						totals[column*routines+routine] = received
					} else {
						must(evaluator.Add(total, received, total))
					}
				}
			}
		}()
	}
	all.Wait()
	decryptor, encoder := rlwe.NewDecryptor(params, secret), ckks.NewEncoder(params)
	sums := make([]float64, columns)
	for i, total := range totals {
		answer, err := total.MarshalBinary()
		must(err)
		received := new(rlwe.Ciphertext)
		must(received.UnmarshalBinary(answer))
		found := make([]complex128, params.MaxSlots())
		must(encoder.Decode(decryptor.DecryptNew(received), found))
		for _, slot := range found {
			sums[i/routines] += real(slot) + imag(slot)
		}
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"seconds": time.Since(started).Seconds(), "cpu": processor() - before, "up": sent, "sums": sums,
	}))
}
