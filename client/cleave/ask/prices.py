"""List prices in us-east-1 (docs/deploy.md). They leave out the run time of Lambda functions, which is not
predicted.
"""

GET_DOLLARS = 0.40e-6  # of a read from S3
OUT_DOLLARS = 0.09e-9  # of a byte that leaves the region
CALL_DOLLARS = 3.70e-6  # of a request to the REST API and to Lambda
