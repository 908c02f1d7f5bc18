/** The first page: what is wrong now, what mends it, and how each integration stands. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { markReauthRequired } from '../../../src/oauth/reauth.ts'
import type { HasOAuth2 } from '../../../src/providers/contracts.ts'
import { noteSchedulePause } from '../../../src/syncs/standing-queries.ts'
import type { Dashboard } from '../../support/dashboard.ts'
import { openDashboard } from '../../support/dashboard.ts'
import { occasion } from '../../support/integrations.ts'
import { syncProvider, webhookProvider } from '../../support/providers.ts'
import { makeIncident, makeIntegration, makeItem, makeRun, makeWebhook, setIntegration } from '../../support/rows.ts'

const OAUTH: HasOAuth2 = {
  authorizationUrl: () => 'https://example.com/authorize',
  exchangeCode: async () => ({}),
  refreshToken: async () => ({}),
  revokeToken: async () => {},
  refreshThreshold: () => 60,
}
const ago = (minutes: number): Date => new Date(Date.now() - minutes * 60_000)

let dashboard: Dashboard

beforeAll(async () => {
  dashboard = await openDashboard({
    providers: {
      ...{ acme: webhookProvider(), listed: syncProvider(() => {}), oauth: OAUTH },
      machine: { ...OAUTH, obtainsTokens: () => true },
    },
  })
})
beforeEach(async () => {
  await dashboard.test.sql`delete from integrations`
})
afterAll(() => dashboard.close())

/** As the doctor sees it now: a page takes an earlier look. */
async function home(who = dashboard.operator): Promise<string> {
  await dashboard.test.integrations.admin.diagnosis({ maxAgeSeconds: -1 })
  return dashboard.page('', who)
}

/** The part under a heading of what is wrong. */
function under(page: string, title: string): string {
  const [, part] = new RegExp(`<h3>${title}(.*?)</ul></div>`, 's').exec(page) ?? []
  if (part === undefined) throw new Error(`"${title}" is not there: ${page}`)
  return part
}

describe('what is wrong now', () => {
  it('is nothing where nothing is', async () => {
    await makeIntegration(dashboard.test, 'acme')
    const page = await home()
    expect(page).toContain('Nothing is wrong.')
    expect(page).toContain('The doctor looked at')
  })

  it('says of each trouble whom it concerns, since when, why, and has what mends it', async () => {
    const { test } = dashboard
    const off = await makeIntegration(test, 'acme', { name: 'off' })
    await setIntegration(test, off.id, {
      healthStatus: 'disabled',
      isActive: false,
      consecutiveFailures: 20,
      lastErrorAt: new Date('2026-11-01T00:00:00Z'),
    })
    const hooks = await makeIntegration(test, 'acme', { name: 'hooks' })
    for (let n = 0; n < 3; n += 1)
      await makeWebhook(test, hooks.id, { status: 'failed', attempts: 3, processedAt: new Date() })
    const held = await makeIntegration(test, 'listed', { name: 'held' })
    const run = await makeRun(test, held.id, {}, { status: 'partial' })
    await makeItem(test, run, { status: 'failed', externalId: 'a' })
    await setIntegration(test, held.id, { syncStaleAlertedAt: ago(90), lastSyncedAt: ago(180) })
    const person = await makeIntegration(test, 'oauth', { name: 'person' })
    await markReauthRequired(test.framework, person, 'invalid_grant')
    const incident = await makeIncident(test, held.id, { reason: 'threshold_reached' })

    const page = await home()
    expect(under(page, 'Switched off by their health')).toMatch(
      new RegExp(
        `Integration ${off.id} was switched off by its health.*2026-11-01T00:00:00.000Z.*/operator/do/post/integrations/${off.id}/enable`,
        's',
      ),
    )
    expect(under(page, 'Webhooks that failed')).toMatch(
      new RegExp(
        `3 webhooks of integration ${hooks.id} failed.*/operator/do/post/webhooks/replay\\?integration=${hooks.id}`,
        's',
      ),
    )
    expect(under(page, 'Failed items that hold a cursor')).toMatch(
      new RegExp(`1 item of the sync of integration ${held.id}|1 item of integration ${held.id}`),
    )
    expect(under(page, 'Stale syncs')).toContain(`/operator/do/post/integrations/${held.id}/sync`)
    expect(under(page, 'A person has to authorize these again')).toContain(
      `<a href="/integrations/${person.id}/oauth/connect">Authorize again</a>`,
    )
    expect(under(page, 'Open incidents')).toContain(`/operator/do/post/incidents/${incident.id}/acknowledge`)
    expect(under(page, 'Open incidents')).toContain('too many calls failed, and its circuit opened')
    const titles = [...page.matchAll(/<h3>([^<]+) <span class="badge (bad|warn)">/g)].map(([, , tone]) => tone)
    expect(titles).toEqual([...titles].sort())
  })

  it('says of an open incident what its cause was, its newest error, and who has acknowledged it', async () => {
    const { test } = dashboard
    const { id } = await makeIntegration(test, 'listed')
    const incident = await makeIncident(test, id, { source: 'sync', reason: 'sync_stale', openedAt: ago(60) })
    await makeRun(test, id, {}, { status: 'failed', error: 'no route to the provider', createdAt: ago(5) })
    const page = await home()
    expect(under(page, 'Open incidents')).toMatch(
      /: its syncs became stale .* The newest error: run \d+: .*no route to/,
    )
    expect(page).not.toContain('incidents.open')
    await test.sql`
      update integration_incidents set acknowledged_at = now(), acknowledged_by = 'ada' where id = ${incident.id}`
    expect(under(await home(), 'Open incidents')).toContain(
      `Incident ${incident.id}: its syncs became stale; at worst degraded; acknowledged by ada.`,
    )
  })

  it('offers who may only read no button', async () => {
    const { test, reader } = dashboard
    const { id } = await makeIntegration(test, 'acme')
    await makeWebhook(test, id, { status: 'failed', attempts: 3, processedAt: new Date() })
    const page = await home(reader)
    expect(under(page, 'Webhooks that failed')).not.toMatch(/<form|\/do\//)
    expect(under(page, 'Webhooks that failed')).toContain('integrations list-webhooks')
    expect(under(await home(), 'Webhooks that failed')).not.toContain('integrations list-webhooks')
  })

  it('shows the command in place of a sync that mends nothing', async () => {
    const { test } = dashboard
    const { id } = await makeIntegration(test, 'listed')
    const run = await makeRun(test, id, {}, { status: 'partial' })
    await makeItem(test, run, { status: 'failed', externalId: null })
    const nameless = under(await home(), 'Failed items that hold a cursor')
    expect(nameless).toContain('psql')
    expect(nameless).not.toContain('/do/')

    const off = await makeIntegration(test, 'listed')
    await makeRun(test, off.id, {}, { createdAt: ago(5) })
    await setIntegration(test, off.id, { isActive: false })
    const stuck = under(await home(), 'Runs whose workflow is gone')
    expect(stuck).toContain('psql')
    expect(stuck).not.toContain('/do/')
  })

  it('does not wait for a doctor who takes long', async () => {
    const slow = await openDashboard({ providers: { acme: webhookProvider() } })
    let look = (): void => {}
    const looking = new Promise<void>((resolve) => {
      look = resolve
    })
    Object.assign(slow.test.framework.temporal, { check: () => looking })
    expect(await slow.page('')).toContain('The doctor is looking')
    look()
    await slow.test.integrations.admin.diagnosis({ maxAgeSeconds: 60 })
    expect(await slow.page('')).toContain('The doctor looked at')
    await slow.close()
  })
})

describe('what was found long ago', () => {
  const old = async (shown: Dashboard): Promise<void> => {
    await shown.test.integrations.admin.diagnosis({ maxAgeSeconds: -1 })
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 600_000 })
    onTestFinished(() => void vi.useRealTimers())
  }

  it.each(['', '/doctor'])('is not shown as how it is now, where the doctor takes long: %s', async (path) => {
    const slow = await openDashboard({ providers: { acme: webhookProvider() } })
    onTestFinished(() => slow.close())
    await old(slow)
    const looking = occasion()
    Object.assign(slow.test.framework.temporal, { check: () => looking.happened })
    const page = await slow.page(path)
    expect(page).toMatch(/As of <time [^>]*>[^<]*<\/time> <span class="quiet ago">10 min ago<\/span>/)
    expect(page).toContain('The doctor is looking again')
    expect(page).not.toMatch(/Nothing is wrong|What is wrong now/)
    looking.happen()
    await slow.test.integrations.admin.diagnosis({ maxAgeSeconds: 45 })
    expect(await slow.page(path)).not.toContain('As of')
  })
})

describe('the integrations', () => {
  it('show how the last run ended, what failed and waits, and when the next sync is', async () => {
    const { test } = dashboard
    const { id } = await makeIntegration(test, 'listed', { name: 'Nothing stored' })
    const run = await makeRun(test, id, { success_count: 0, failure_count: 2 }, { status: 'failed' })
    for (const externalId of ['a', 'b']) await makeItem(test, run, { status: 'failed', externalId })
    await makeItem(test, run, { status: 'processing', nextAttemptAt: new Date() })
    await setIntegration(test, id, { nextSyncAt: ago(-5), consecutiveSyncFailures: 2 })
    const page = await home()
    expect(page).toMatch(
      /Nothing stored<\/a>.*healthy.*in [45] min<\/span>, 2 in a row had failures.*failed<\/span><\/a> 0 succeeded, 2 failed/,
    )
    expect(page).toContain(
      `<a href="/operator/sync-items?integration=${id}&amp;status=failed&amp;made_up_for=false" class="bad">2</a>`,
    )
  })

  it('show the run that is under way beside the last one', async () => {
    const { test } = dashboard
    const { id } = await makeIntegration(test, 'listed', { name: 'Runs now' })
    await makeRun(test, id, { success_count: 3 }, { status: 'success' })
    const run = await makeRun(test, id, {}, { createdAt: ago(4) })
    await makeItem(test, run, { status: 'processing', nextAttemptAt: new Date() })
    expect(await home()).toMatch(
      new RegExp(
        `Runs now</a>.*success</span></a> 3 succeeded, 0 failed; <a href="/operator/sync-runs/${run.id}">run ${run.id} under way for 4 min; 1 wait</a>`,
      ),
    )
  })

  it('say why no sync comes', async () => {
    const { test } = dashboard
    const { id } = await makeIntegration(test, 'listed', { name: 'one' })
    await test.integrations.disable(id)
    expect(await home()).toContain('none: switched off by an operator')
  })

  it('lead who may operate to where one is authorized again, and tell a reader that it is needed', async () => {
    const { test, reader } = dashboard
    const integration = await makeIntegration(test, 'oauth', { name: 'Let <us> in' })
    await markReauthRequired(test.framework, integration, 'invalid_grant')
    expect(await home()).toContain(
      `<a class="bad" href="/integrations/${integration.id}/oauth/connect" aria-label="Reconnect Let &lt;us&gt; in">Reconnect</a>`,
    )
    expect(await home(reader)).toContain('<span class="bad">authorization is needed again</span>')
  })

  it('lead to pages that offer to connect what needs a person, and nothing else', async () => {
    for (const [provider, isOffered] of [
      ['oauth', true],
      ['machine', false],
    ] as const) {
      const { id } = await makeIntegration(dashboard.test, provider)
      const page = await dashboard.page(`/integrations/${id}`)
      expect([provider, page.includes(`/integrations/${id}/oauth/connect`)]).toEqual([provider, isOffered])
    }
  })

  it('go on to the older ones', async () => {
    const { test } = dashboard
    for (let index = 0; index < 51; index += 1) await makeIntegration(test, 'acme', { name: `of many ${index}` })
    const first = await home()
    const [, older = ''] = /<a rel="next" href="\/operator([^"]+)">Older<\/a>/.exec(first) ?? []
    expect(first).not.toContain('>of many 0<')
    expect(await dashboard.page(older)).toContain('>of many 0<')
  })
})

describe('a paused sync', () => {
  const row = async (path: string) => (await dashboard.page(path)).replaceAll(/<[^>]*>/g, '')

  it('says by whom and since when, at home, in the list and on its page, until it is resumed or a run begins', async () => {
    const { test } = dashboard
    const { note } = test.integrations.admin.operator
    const { id } = await makeIntegration(test, 'listed')
    await setIntegration(test, id, { nextSyncAt: ago(5) })
    const places = ['', '/integrations', `/integrations/${id}`]
    for (const place of places) expect(await row(place)).toContain('due since')
    await note(id, { token: 'mara', action: 'pause', target: `integration:${id}` })
    for (const place of places) {
      expect(await row(place)).toMatch(/paused by mara since \d{4}-/)
      expect(await row(place)).not.toContain('due since')
    }
    await note(id, { token: 'mara', action: 'resume', target: `integration:${id}` })
    expect(await row('')).toContain('due since')
    await note(id, { token: 'mara', action: 'pause', target: `integration:${id}` })
    // Resumed in Temporal's UI, which no audit has.
    await makeRun(test, id, {}, { status: 'processing' })
    expect(await row('')).toContain('due since')
  })
})

describe('a Schedule that is paused in Temporal alone', () => {
  const text = async (path: string) => (await dashboard.page(path)).replaceAll(/<[^>]*>/g, '')

  it('is told in place of the next sync, at home, in the list and on the page, until it goes on', async () => {
    const { framework } = dashboard.test
    const pause = vi.spyOn(framework.temporal, 'dispatchPause')
    onTestFinished(() => pause.mockRestore())
    const { id } = await makeIntegration(dashboard.test, 'listed')
    await setIntegration(dashboard.test, id, { nextSyncAt: ago(5) })
    const places = ['', '/integrations', `/integrations/${id}`]
    pause.mockResolvedValue({ id: 'integrations:dispatch-syncs', note: 'Paused via CLI' })
    await noteSchedulePause(framework)
    for (const place of places) {
      expect(await text(place)).toMatch(
        /none begins by itself: the Schedule integrations:dispatch-syncs is paused in Temporal \(&quot;Paused via CLI&quot;\) since \d{4}-/,
      )
      expect(await text(place)).not.toContain('due since')
    }
    expect(await text(`/integrations/${id}`)).toMatch(/no sync of any integration begins by itself since then/)
    // A page asks Postgres alone.
    expect(pause).toHaveBeenCalledTimes(1)
    pause.mockResolvedValue(null)
    await noteSchedulePause(framework)
    for (const place of places) expect(await text(place)).toContain('due since')
  })
})
