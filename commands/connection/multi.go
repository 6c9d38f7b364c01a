package connection

import "lockproxy/commands"

func multi(c *commands.Call) { c.Transactions().Multi() }

func execMulti(c *commands.Call) { c.Transactions().Exec() }

func discardMulti(c *commands.Call) { c.Transactions().Discard() }

func watch(c *commands.Call) { c.Transactions().Watch() }

func unwatch(c *commands.Call) { c.Transactions().Unwatch() }
