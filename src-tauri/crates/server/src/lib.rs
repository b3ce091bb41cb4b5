//! The loopback server, MCP and the command line; bin `changeover`.
