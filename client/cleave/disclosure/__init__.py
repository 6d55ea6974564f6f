"""Rules on what answers may reveal about a person: thresholds, gateway users, releases."""
