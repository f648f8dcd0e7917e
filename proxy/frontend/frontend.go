// Package frontend accepts the connections of clients and feeds what comes over
// them to the pipeline of package proxy.
package frontend
