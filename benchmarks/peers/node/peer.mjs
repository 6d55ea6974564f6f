// Sums of columns by node-seal (SEAL as WebAssembly): FILE ROWS COLUMNS, float64 column after column. Real slots (it has
// no complex ones), N = 4096 and one prime, symmetric and seeded; what is sent is saved and loaded. Prints JSON.
import { readFileSync } from "node:fs";
import SEAL from "node-seal";

const [file, rows, columns] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const raw = readFileSync(file);
const values = new Float64Array(raw.buffer, raw.byteOffset, rows * columns);
const seal = await SEAL();
const parameters = new seal.EncryptionParameters(seal.SchemeType.ckks);
parameters.setPolyModulusDegree(4096);
parameters.setCoeffModulus(seal.CoeffModulus.Create(4096, Int32Array.from([60])));
const context = new seal.SEALContext(parameters, true, seal.SecLevelType.tc128);
const generator = new seal.KeyGenerator(context);
const secret = generator.secretKey();
const encryptor = new seal.Encryptor(context, generator.createPublicKey(), secret);
const decryptor = new seal.Decryptor(context, secret);
const encoder = new seal.CKKSEncoder(context);
const evaluator = new seal.Evaluator(context);
const slots = encoder.slotCount();
const none = seal.ComprModeType.none;

const started = performance.now();
const before = process.cpuUsage();
let sent = 0;
const sums = [];
for (let column = 0; column < columns; column++) {
  const total = new seal.Ciphertext();
  for (let start = 0; start < rows; start += slots) {
    const plaintext = new seal.Plaintext();
    encoder.encode(values.subarray(column * rows + start, column * rows + Math.min(start + slots, rows)), 2 ** 38, plaintext);
    const upload = encryptor.encryptSymmetricSerializable(plaintext);
    const bytes = upload.saveToArray(none);
    sent += bytes.length;
    if (start === 0) {
      total.loadFromArray(context, bytes);
    } else {
      const received = new seal.Ciphertext();
      received.loadFromArray(context, bytes);
      evaluator.addInplace(total, received);
      received.delete();
    }
    upload.delete();
    plaintext.delete();
  }
  const answer = new seal.Ciphertext();
  answer.loadFromArray(context, total.saveToArray(none));
  const plaintext = new seal.Plaintext();
  decryptor.decrypt(answer, plaintext);
  sums.push(encoder.decodeFloat64(plaintext).reduce((sum, slot) => sum + slot, 0));
}
const seconds = (performance.now() - started) / 1000;
const { user, system } = process.cpuUsage(before);
console.log(JSON.stringify({ seconds, cpu: (user + system) / 1e6, up: sent, sums }));
