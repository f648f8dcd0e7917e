// Package worker reads workers.properties.
package worker
