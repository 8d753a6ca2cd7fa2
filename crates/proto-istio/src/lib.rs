//! Istio, MCP, mesh-config, workload and CA messages with their descriptor set and JSON mapping.
