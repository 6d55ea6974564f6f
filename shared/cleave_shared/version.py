"""The release named by the wheel, `cleave --version` and reports. It is defined only here."""

VERSION = "3.0.0"
