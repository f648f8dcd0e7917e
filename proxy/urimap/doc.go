// Package urimap reads uriworkermap.properties.
package urimap
