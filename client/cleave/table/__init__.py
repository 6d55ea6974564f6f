"""Files, frames and tables read under a schema: types, casts, constraints, and words for what does not fit."""
