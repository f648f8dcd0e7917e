package proxy

import "os"

// SetSpoolFile has the spool take its files from create.
func (p *Proxy) SetSpoolFile(create func() (*os.File, error)) { p.spool.create = create }

// CreateUnnamed is what it takes them from otherwise.
var CreateUnnamed = createUnnamed
