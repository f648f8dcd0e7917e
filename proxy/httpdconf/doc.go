// Package httpdconf reads the configuration of an Apache httpd as far as mod_jk is
// concerned, so that it can be moved to a proxy: which workers there are, and which
// paths of which virtual hosts go to them.
//
// # Grammar
//
//	file      = *line
//	line      = [ directive | section | "#" anything ]
//	directive = name *( blanks argument )
//	section   = "<" name *( blanks argument ) ">" *line "</" name ">"
//	argument  = text without blanks | '"' text '"' | "'" text "'"
//
// A backslash at the end of a line continues it. Within quotes a backslash takes the
// quote after it for text. Names are compared without case. ${NAME} is what a Define
// before it has set, else an environment variable, else itself.
//
// # What is followed
//
//	Include, IncludeOptional    also with wildcards, and directories; relative to ServerRoot
//	IfModule, IfDefine, IfFile  as far as that can be told: a module counts as loaded if it is mod_jk, if
//	                            a LoadModule before has it, or if it is usually built in
//	VirtualHost                 with ServerName and ServerAlias
//	Location                    around a JkMount or JkUnMount without a path
//
// Other sections are looked through for directives that matter, each of which is then
// a [properties.Problem]: nothing is left out without a word.
package httpdconf
