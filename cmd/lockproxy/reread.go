package main

import (
	"context"
	"time"

	"lockproxy/cmd/lockproxy/limits"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/internal/lockevent"
)

// heedReread rereads the settings at each of hups, until life ends. They are reread on this goroutine alone,
// so no two rereads overlap.
func (p *program) heedReread(life context.Context) {
	for {
		select {
		case <-life.Done():
			return
		case <-p.hups:
			p.rereadSettings()
		}
	}
}

// rereadSettings takes over the settings as their sources have them now, or none of them, and logs what that
// means.
func (p *program) rereadSettings() {
	defer p.manager.Rereading()()
	// Files are read whatever becomes of the settings: a password may be new although a setting is wrong.
	p.passwords.Again()
	fresh, err := p.settings()
	if err != nil {
		p.refuseSettings(err)
		return
	}
	changed, restart, err := p.config.Reread(fresh)
	// Told in any case: whoever has changed the file expects it to count.
	for _, s := range restart {
		p.log.Warn("a setting has changed and needs a restart", "setting", s.Name,
			"running", s.Logged(p.config.Started()), "then", s.Logged(fresh))
	}
	if err != nil {
		p.refuseSettings(err)
		return
	}
	p.refused.Store(false)
	v := p.config.Values()
	for _, s := range changed {
		p.log.Info("setting changed", "setting", s.Name, "value", s.Logged(v), "by", "SIGHUP")
		if p.audit != nil {
			p.audit.Note(lockevent.Event{Time: time.Now(), Kind: lockevent.Setting, Setting: s.Name,
				Value: s.Logged(v), Reason: lockevent.Reread})
		}
	}
	p.log.Info("settings reread", "changed", len(changed), "restart", len(restart))
}

// refuseSettings logs all that is wrong with the settings as they are given now. /metrics shows it
// (reload_success) until a reread succeeds.
func (p *program) refuseSettings(err error) {
	p.refused.Store(true)
	all := settings.Apart(err)
	p.log.Error("settings reread and not used: all stay as they are", "mistakes", len(all))
	for _, one := range all {
		p.log.Error("a setting is wrong", "err", one)
	}
}

// fitClients lowers the settings to what the process may have. It is called with the settings of the start,
// and with those of each change.
func (p *program) fitClients(v *settings.Values) *settings.Values {
	return limits.FitClients(v, limits.OpenFiles(), p.log)
}
