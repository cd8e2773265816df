"""AgentJet's configuration: what each of its keys is here."""
