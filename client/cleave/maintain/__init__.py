"""Operations on stored tables: pull, verify, derive, change, alter, rotate, and sharing between parties."""
