"""Makes patients.csv: 600 made-up people, the same ones every time.

    python tests/samples/make_patients.py tests/samples/patients.csv

patients.schema.toml beside it is what `cleave schema patients.csv` proposed, reviewed: `admitted` was opened to the
plain service, which then knows the ward and the day of an admission but nobody's name, age, bill or weight.
"""

from __future__ import annotations

import csv
import random
import sys
from datetime import date, timedelta
from typing import TextIO

ROWS = 600
# fmt: off
FIRST = [
    "Ada", "Amir", "Anna", "Bela", "Carla", "Chidi", "Daria", "Emil", "Farah", "Goran", "Hana", "Idris", "Ines",
    "Jonas", "Kaya", "Leon", "Lucía", "Maren", "Mateo", "Mina", "Nils", "Noor", "Olga", "Paulo", "Priya",
    "Quentin", "Rosa", "Søren", "Tamar", "Uma", "Viktor", "Wanda", "Xenia", "Yusuf", "Zoë",
]
LAST = [
    "Abara", "Bakker", "Castellan", "Dörfler", "Eklund", "Ferrante", "Grünwald", "Haddad", "Ivanova", "Jansen",
    "Kowalczyk", "Lindqvist", "Moreau", "Nakamura", "Okonkwo", "Petrov", "Quispe", "Rahimi", "Silva", "Tanaka",
    "Ulrich", "Vasquez", "Weiss", "Ximenes", "Yilmaz", "Zeller",
]
# fmt: on
WARDS = {  # mean age
    "Cardiology": 61,
    "Geriatrics": 79,
    "Maternity": 31,
    "Oncology": 58,
    "Paediatrics": 9,
    "Surgery": 47,
}
NOTES = (
    "Recovering well, was seen by the physiotherapist on two days and walks without help.",
    "Asked for a second opinion; the family was told about the next steps, in writing.",
    'Says "much better" after the change of medication, sleeps through the night again.',
    "Transferred from another hospital, the records are still on their way.\nFollow up in six weeks.",
    "No complaints on the round, blood pressure measured twice a day, diet as before.",
)


def write(file: TextIO) -> None:
    draw = random.Random(600)
    out = csv.writer(file, lineterminator="\n")
    out.writerow(["patient_name", "email", "ward", "admitted", "age", "bill", "weight", "insured", "notes"])
    for number in range(1, ROWS + 1):
        first, last = draw.choice(FIRST), draw.choice(LAST)
        ward, mean_age = draw.choice(sorted(WARDS.items()))
        age = min(max(round(draw.gauss(mean_age, 9)), 0 if ward == "Paediatrics" else 16), 101)
        full_weight = draw.gauss(74, 12) if age > 15 else 3.5 + 3 * age + draw.gauss(0, 1.5)
        out.writerow(
            [
                f"{first} {last}",
                f"patient{number:03d}@example.org",
                ward,
                date(2025, 1, 1) + timedelta(days=draw.randrange(90)),
                age,
                f"{draw.lognormvariate(7.4, 0.9):.2f}",
                "" if draw.random() < 0.03 else f"{abs(full_weight):.8f}",
                "true" if draw.random() < 0.87 else "false",
                f"{draw.choice(NOTES)} Case {number}." if draw.random() < 0.7 else "",
            ]
        )


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8", newline="") as file:
        write(file)
