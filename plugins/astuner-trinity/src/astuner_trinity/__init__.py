"""The backbone `trinity`: Trinity-RFT's explorer and trainer, each in processes of its own over Ray."""
