package status

import (
	"encoding/xml"
	"strconv"
	"strings"
)

// The formats, as mime has them.
const (
	mimeHTML = "html"
	mimeXML  = "xml"
	mimeTXT  = "txt"
	mimeProp = "prop"
)

// A kind is what a machine format tells of.
type kind uint8

const (
	aServer kind = iota // whom the client has asked
	aTime
	aSoftware
	balancers // a list
	aBalancer
	aMember
	ajpWorkers // a list
	anAJP      // a worker that is a single server
	aRule
	aConfiguration
	aResult
)

// shape is how a kind is written.
type shape struct {
	element string // in XML
	indent  int    // of it, in blanks
	label   string // in txt
	opens   bool   // in XML others stand within it, up to end
}

// shape returns that of k.
func (k kind) shape() shape {
	return [...]shape{
		aServer:        {"server", 0, "Server:", false},
		aTime:          {"time", 0, "Time:", false},
		aSoftware:      {"software", 0, "Software:", false},
		balancers:      {"balancers", 0, "Balancer Workers:", true},
		aBalancer:      {"balancer", 2, "Balancer Worker:", true},
		aMember:        {"member", 6, "Member:", false},
		ajpWorkers:     {"ajp_workers", 0, "AJP Workers:", true},
		anAJP:          {"ajp", 2, "AJP Worker:", false},
		aRule:          {"map", 6, "Map:", false},
		aConfiguration: {"configuration", 2, "Configuration:", false},
		aResult:        {"result", 2, "Result:", false},
	}[k]
}

// An object is one thing that a machine format tells of.
type object struct {
	kind   kind
	worker string // of a member or a rule: whose it is
	id     field  // its name or its number; without a name if it has none
	fields fields
}

// put writes to the reply.
func (c *call) put(parts ...string) {
	for _, p := range parts {
		c.out.WriteString(p)
	}
}

// write writes an object in the format that was asked for.
func (c *call) write(o object) {
	switch c.mime {
	case mimeXML:
		c.writeXML(o)
	case mimeTXT:
		c.writeTXT(o)
	default:
		c.writeProp(o)
	}
}

// all returns the fields with the one in front that names the object.
func (o *object) all() fields {
	if o.id.name == "" {
		return o.fields
	}
	return append(fields{o.id}, o.fields...)
}

// openXML begins a document.
func (c *call) openXML() {
	c.put(`<?xml version="1.0" encoding="UTF-8" ?>`, "\n")
	if c.doctype != "" {
		c.put(c.doctype, "\n")
	}
	c.put("<", c.ns, "status\n")
	if c.xmlns != "" {
		c.put("  ", c.xmlns)
	}
	c.put(">\n")
}

// writeXML writes an element with a line for each attribute, as mod_jk does.
func (c *call) writeXML(o object) {
	s := o.kind.shape()
	pad := strings.Repeat(" ", s.indent)
	c.put(pad, "<", c.ns, s.element, "\n")
	for _, a := range o.all() {
		name := a.name
		if o.kind == aConfiguration {
			name = xmlName(name)
		}
		c.put(pad, "  ", name, `="`)
		_ = xml.EscapeText(&c.out, []byte(a.value)) // a Buffer cannot fail
		c.put("\"\n")
	}
	if s.opens {
		c.put(pad, ">\n")
	} else {
		c.put(pad, "/>\n")
	}
}

// end ends a list, or a balancer.
func (c *call) end(k kind) {
	if s := k.shape(); c.mime == mimeXML {
		c.put(strings.Repeat(" ", s.indent), "</", c.ns, s.element, ">\n")
	}
}

// xmlName makes an attribute's name of a property's.
func xmlName(s string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, s)
	if name == "" || name[0] < 'A' { // a digit, '.' or '-'
		name = "_" + name
	}
	return name
}

func (c *call) writeTXT(o object) {
	c.put(o.kind.shape().label)
	if o.kind == aConfiguration {
		c.put("\n")
		c.writeLines("", o.fields)
		return
	}
	for _, a := range o.all() {
		quote := ""
		if a.quoted {
			quote = `"`
		}
		c.put(" ", a.name, "=", quote, a.value, quote)
	}
	c.put("\n")
}

// writeLines writes fields with what stands in front of each.
func (c *call) writeLines(before string, f fields) {
	for _, a := range f {
		c.put(before, a.name, "=", a.value, "\n")
	}
}

// writeProp writes lines that read like a workers.properties.
func (c *call) writeProp(o object) {
	p := c.prefix + "."
	switch o.kind {
	case aServer, aTime:
		c.writeLines(p+o.kind.shape().element+"_", o.fields)
	case aSoftware:
		c.writeLines(p, o.fields)
	case aConfiguration:
		c.writeLines("", o.fields)
	case aResult:
		c.writeLines(p+"result.", o.fields)
	case balancers:
		c.put(p, "lb_count=", o.id.value, "\n")
	case ajpWorkers:
		c.put(p, "ajp_count=", o.id.value, "\n")
	case aBalancer:
		c.put(p, "list=", o.id.value, "\n")
		c.writeLines(p+o.id.value+".", o.fields)
	case anAJP:
		c.put(p, o.id.value, ".list=", o.id.value, "\n")
		c.writeLines(p+o.id.value+".", o.fields)
	case aRule:
		c.writeLines(p+o.worker+".map."+o.id.value+".", o.fields)
	case aMember:
		c.put(p, o.worker, ".balance_workers=", o.id.value, "\n")
		for _, a := range o.fields {
			whose := o.id.value
			if a.outer {
				whose = o.worker
			}
			c.writeLines(p+whose+".", fields{a})
		}
	}
}

// name is the field that names an object.
func name(s string) field { return field{name: "name", value: s} }

// numbered is one that counts.
func numbered(name string, n int) field { return field{name: name, value: strconv.Itoa(n)} }
