package commands

func multi(c *Call) { c.Transactions().Multi() }

func execMulti(c *Call) { c.Transactions().Exec() }

func discardMulti(c *Call) { c.Transactions().Discard() }

func watch(c *Call) { c.Transactions().Watch() }

func unwatch(c *Call) { c.Transactions().Unwatch() }
