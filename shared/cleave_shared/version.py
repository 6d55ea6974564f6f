"""The release named by the wheel, `cleave --version` and reports. It is defined only here."""

VERSION = "1.1.0.dev0"
