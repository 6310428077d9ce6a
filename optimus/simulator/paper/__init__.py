"""The evaluation of Optimus (EuroSys 2018, section 6), simulated: what was run there, and what it
shows here."""
