"""What `cleave schema` alone needs: how a file is written, its types, and which columns are sensitive."""
