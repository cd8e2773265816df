"""What user code hands over, checked and made plain where it is handed over: nothing that is stored later can be refused."""
