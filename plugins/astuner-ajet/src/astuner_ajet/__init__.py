"""AgentJet and ASTuner projects on astuner. The modules that they import are in the package `ajet`."""
