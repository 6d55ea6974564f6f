"""Rules on what answers may say about a person: thresholds, gateway users, releases."""
