"""The backbone `trinity`: Trinity-RFT's explorer and trainer, in separate processes over Ray."""
