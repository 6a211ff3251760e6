//! Tests of hosts, by clauses of the RFCs.
