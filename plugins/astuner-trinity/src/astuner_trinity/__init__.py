"""The backbone `trinity`: Trinity-RFT's explorer and trainer, each in its own processes over Ray."""
