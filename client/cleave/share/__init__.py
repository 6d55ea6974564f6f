"""Contributors: invite, contribute, collect."""
