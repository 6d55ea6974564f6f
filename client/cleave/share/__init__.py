"""Sharing between parties: contributors' rows, releases to analysts, users of the gateway."""
