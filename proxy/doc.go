// Package proxy is the data plane.
package proxy
