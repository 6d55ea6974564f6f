"""Connections of this machine's servers, for all their protocols."""
