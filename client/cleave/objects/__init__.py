"""Objects in a folder or in S3, and their local cache."""
