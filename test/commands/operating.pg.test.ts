/** list, show, enable, disable, delete, erase, sync, keys, config and migrate on real rows. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createIntegrations } from '../../src/create-integrations.ts'
import { markReauthRequired } from '../../src/oauth/reauth.ts'
import { scriptedOAuth } from '../oauth/scripted-oauth.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { CREDENTIALS, SECRET, syncProvider, TOKEN } from '../support/providers.ts'
import { makeIntegration, makeRun, makeWebhook, setIntegration } from '../support/rows.ts'
import type { Ran, RunOptions } from './cli/run.ts'
import { runCommand } from './cli/run.ts'

const OLD = encryptionKey('old')
const NEW = encryptionKey('new')
const NEVER = 999_999_999

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    encryptionKeys: OLD,
    providers: { demo: syncProvider(() => {}), other: {}, oauth: scriptedOAuth(() => ({})) },
    config: { webhook: { max_attempts: 4 } },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

async function run(words: readonly string[], options?: RunOptions): Promise<Ran> {
  const ran = await runCommand(test.integrations, words, options)
  for (const secret of [TOKEN, SECRET]) expect(ran.out + ran.err).not.toContain(secret)
  return ran
}

describe('list', () => {
  let first: number
  let second: number

  beforeAll(async () => {
    first = (await makeIntegration(test, 'demo', { name: 'first \u001b[31mred', owner: { type: 'team', id: 7 } })).id
    second = (await makeIntegration(test, 'other', { name: 'second', isActive: false })).id
    await setIntegration(test, first, { healthStatus: 'failing', syncStaleAlertedAt: new Date() })
  })

  it('has a row for each integration', async () => {
    const { exitCode, json } = await run(['list', '--json'])
    expect(exitCode).toBe(0)
    // The newest first.
    expect(json()).toMatchObject([
      { id: second, provider: 'other', is_active: false, stale: false },
      {
        id: first,
        name: 'first \u001b[31mred',
        provider: 'demo',
        registered: true,
        health_status: 'failing',
        is_active: true,
        switched_off_at: null,
        circuit: 'closed',
        stale: true,
        reauth_required: false,
        last_synced_at: null,
        failed_items: 0,
        waiting_items: 0,
        last_run: null,
        open_run: null,
        pause: null,
        requests_24h: 0,
        error_rate_24h: null,
        credentials: Object.keys(CREDENTIALS).sort(),
        owner_type: 'team',
        owner_id: 7,
      },
    ])
  })

  it('is a table without control characters otherwise', async () => {
    const { out } = await run(['list'])
    const [head, , row] = out.split('\n')
    expect(head).toMatch(
      /^ *ID +Name +Provider +Registered +Health +Active +Circuit +Stale +Reauthorize +Last synced +Failed items +Waiting +Last run +Under way +Paused +Requests 24 h +Errors %$/,
    )
    expect(row).toMatch(
      new RegExp(`^ *${first} +first \\[31mred +demo +yes +failing +yes +closed +yes +no +- +0 +0 +- +- +- +0 +-$`),
    )
  })

  it.each<[string[], () => number[]]>([
    [['--provider', 'demo'], () => [first]],
    [['--owner', 'team:7'], () => [first]],
    [['--owner', 'team:8'], () => []],
    [['--health', 'failing'], () => [first]],
    [['--health', 'healthy'], () => [second]],
    [['--active'], () => [first]],
    [['--inactive'], () => [second]],
    [['--stale'], () => [first]],
    [['--provider', 'demo', '--inactive'], () => []],
  ])('%j', async (filter, ids) => {
    const rows: { id: number }[] = (await run(['list', ...filter, '--json'])).json()
    expect(rows.map(({ id }) => id)).toEqual(ids())
  })

  it('says that there are none', async () => {
    expect(await run(['list', '--owner', 'team:8'])).toMatchObject({ exitCode: 0, out: 'No integrations.\n', err: '' })
    expect(await run(['list', '--provider', 'gitlab'])).toMatchObject({
      exitCode: 0,
      out: 'No integrations.\n',
      err: expect.stringMatching(
        /^No integration that was asked for has the provider "gitlab", which is not registered; registered are .*demo.*\.\n$/,
      ),
    })
  })

  it.each([
    [1, 1, () => `There are more than 1; --limit shows more, --after ${second} the next ones.\n`],
    [2, 2, () => ''],
  ])('--limit %i shows %i and warns only when there are more', async (limit, shown, warning) => {
    const { err, json } = await run(['list', '--limit', String(limit), '--json'])
    expect(json()).toHaveLength(shown)
    expect(err).toBe(warning())
  })
})

describe('show', () => {
  it('names the credentials and shows none', async () => {
    const { id } = await makeIntegration(test, 'demo', { metadata: { region: 'eu' }, owner: { type: 'team', id: 7 } })
    const ran = await run(['show', String(id), '--json'])
    expect(ran.json()).toMatchObject({
      id,
      provider: 'demo',
      registered: true,
      contracts: ['DeclaresRateLimit', 'HasScheduledSync'],
      owner: 'team:7',
      is_active: true,
      health_status: 'healthy',
      credentials: Object.keys(CREDENTIALS).sort(),
      metadata: { region: 'eu' },
    })
    const { out } = await run(['show', String(id)])
    expect(out).toMatch(/^credentials +token, webhook_secret$/m)
    // The words of the contracts that `--json` names.
    expect(out).toMatch(/^provider can +sync on a schedule, state its rate limit$/m)
    expect(out).not.toContain('HasScheduledSync')
    expect(out).toMatch(/^metadata +\{"region":"eu"\}$/m)
  })

  it('names the run that is under way beside the last one', async () => {
    const { id } = await makeIntegration(test, 'demo')
    await makeRun(test, id, {}, { status: 'partial' })
    const open = await makeRun(test, id)
    const { out } = await run(['show', String(id)])
    expect(out).toMatch(/^last_run +partial$/m)
    expect(out).toMatch(new RegExp(`^under way +run ${open.id} under way for less than a minute$`, 'm'))
    expect((await run(['list', '--json'])).json()).toContainEqual(
      expect.objectContaining({ id, open_run: { id: open.id, stream: null, since: open.createdAt.toISOString() } }),
    )
    await test.integrations.delete(id)
  })

  it('says how an authorization stands, where there is one', async () => {
    const credentials = { access_token: TOKEN, refresh_token: SECRET, token_expires_at: '2031-06-01T12:00:00Z' }
    const integration = await makeIntegration(test, 'oauth', { credentials })
    await markReauthRequired(test.framework, integration, 'invalid_grant')
    const id = String(integration.id)
    expect((await run(['show', id, '--json'])).json()).toMatchObject({
      reauth_required: true,
      oauth: { connected: true, reauth_reason: 'invalid_grant', next_refresh_at: null, failing_since: null },
    })
    const { out } = await run(['show', id])
    expect(out).toMatch(/^reauth_required +yes$/m)
    expect(out).toMatch(/^oauth[.]token_expires_at +2031-06-01T12:00:00[.]000Z$/m)
    const plain = await makeIntegration(test, 'demo')
    expect((await run(['show', String(plain.id), '--json'])).json()).toMatchObject({
      reauth_required: false,
      oauth: null,
    })
    await setIntegration(test, integration.id, { credentials: 'plain' })
    expect((await run(['show', id, '--json'])).json()).toMatchObject({ credentials: null, oauth: null })
    for (const made of [integration, plain]) await test.integrations.delete(made.id)
  })

  it('shows one whose provider is not registered', async () => {
    const { id } = await makeIntegration(test, 'demo')
    await setIntegration(test, id, { provider: 'gone' })
    const { exitCode, json } = await run(['show', String(id), '--json'])
    expect(exitCode).toBe(0)
    expect(json()).toMatchObject({ id, provider: 'gone', registered: false, contracts: [], webhook_address: null })
    await test.integrations.delete(id)
  })

  it('says when the credentials can not be read', async () => {
    const { id } = await makeIntegration(test, 'demo')
    await setIntegration(test, id, { credentials: 'plain' })
    const { exitCode, err, json } = await run(['show', String(id), '--json'])
    expect(exitCode).toBe(0)
    expect(err).toContain(`The credentials of integration ${id} can't be read`)
    expect(json()).toMatchObject({ credentials: null })
    await test.integrations.delete(id)
  })
})

describe('enable and disable', () => {
  it('switch it', async () => {
    const { id } = await makeIntegration(test, 'demo')
    const off = await run(['disable', String(id), '--json'])
    expect(off).toMatchObject({ exitCode: 0, err: '' })
    expect(off.json()).toMatchObject({ id, name: 'of a test', is_active: false })
    expect((await test.integrations.get(id)).isActive).toBe(false)
    expect((await run(['enable', String(id)])).out).toBe(`Integration ${id} is switched on.\n`)
    expect((await test.integrations.get(id)).isActive).toBe(true)
  })
})

describe.each(['delete', 'erase'])('%s', (command) => {
  it('needs --yes where nobody can be asked', async () => {
    const { id } = await makeIntegration(test, 'demo')
    const ran = await run([command, String(id), '--json'])
    expect(ran.exitCode).toBe(1)
    expect(ran.json()).toEqual({
      error: { code: 'confirmation_needed', message: expect.stringContaining('give --yes to go on') },
    })
    expect(Object.keys((await test.integrations.get(id)).credentialsArray())).toHaveLength(2)
  })

  it('asks, naming the integration, and takes no for an answer', async () => {
    const { id } = await makeIntegration(test, 'demo', { name: 'Ours' })
    const asked: string[] = []
    const { exitCode, err } = await run([command, String(id)], { answers: { 'integration ': false }, asked })
    expect({ exitCode, err }).toEqual({ exitCode: 1, err: 'Nothing was changed.\n' })
    expect(asked[0]).toContain(`integration ${id} ("Ours", demo)`)
    expect(Object.keys((await test.integrations.get(id)).credentialsArray())).toHaveLength(2)
  })

  it.each<[string, string[], RunOptions]>([
    ['--yes', ['--yes'], {}],
    ['a yes', [], { answers: { 'integration ': true } }],
  ])('goes on with %s', async (_, words, options) => {
    const { id } = await makeIntegration(test, 'demo')
    await makeWebhook(test, id)
    const ran = await run([command, String(id), ...words, '--json'], options)
    expect(ran.exitCode).toBe(0)
    expect(ran.json()).toMatchObject({ id, [`${command}d`]: { webhooks: 1 } })
    const left = await test.integrations.find(id)
    if (command === 'delete') expect(left).toBeNull()
    else expect(Object.keys(left?.credentialsArray() ?? { some: 1 })).toEqual([])
  })
})

describe('delete', () => {
  it('is refused while a run lives, unless forced', async () => {
    const { id } = await makeIntegration(test, 'demo')
    test.starts.running.add(id)
    const refused = await run(['delete', String(id), '--yes', '--json'])
    expect(refused.exitCode).toBe(1)
    expect(refused.json()).toMatchObject({ error: { code: 'integration_busy' } })
    expect((await run(['delete', String(id), '--yes', '--force'])).exitCode).toBe(0)
    expect(await test.integrations.find(id)).toBeNull()
  })
})

describe('sync', () => {
  it('starts a run, and says when one lives already', async () => {
    const { id } = await makeIntegration(test, 'demo')
    expect(await run(['sync', '--integration', String(id)])).toMatchObject({ exitCode: 0, out: 'Started 1\n' })
    test.starts.running.add(id)
    expect((await run(['integrations:sync', '--integration', String(id)])).out).toBe(
      'Already running: will run again after the one that runs\n',
    )
    expect((await run(['sync', '--integration', String(id), '--json'])).json()).toEqual({
      integration_id: id,
      stream: null,
      outcome: 'remembered',
      started: 0,
      already_running: true,
    })
    test.starts.running.delete(id)
  })
})

describe('an unknown integration', () => {
  it.each([
    [['sync', '--integration']],
    [['show']],
    [['enable']],
    [['disable']],
    [['delete', '--yes']],
    [['erase', '--yes']],
  ])('%j ends with 1', async (words) => {
    const ran = await run([...words, String(NEVER), '--json'])
    expect(ran.exitCode).toBe(1)
    expect(ran.json()).toEqual({
      error: { code: 'integration_not_found', message: `There is no integration with id ${NEVER}.` },
    })
  })
})

describe('config', () => {
  it('shows every key, and only what is asked for', async () => {
    const all: { key: string; value: unknown; source: string; default: unknown; unit: string | null }[] = (
      await run(['config', '--json'])
    ).json()
    expect(all.length).toBeGreaterThan(40)
    const one = await run(['config', 'webhook.max_attempts', '--json'])
    expect(one.json()).toEqual([
      expect.objectContaining({ key: 'webhook.max_attempts', value: 4, source: 'options', default: 1 }),
    ])
    const section: typeof all = (await run(['config', 'webhook', '--json'])).json()
    expect(section.length).toBeGreaterThan(1)
    expect(section.every(({ key }) => key.startsWith('webhook.'))).toBe(true)
    const changed: typeof all = (await run(['config', '--changed', '--json'])).json()
    expect(changed.map(({ key }) => key)).toEqual(['webhook.max_attempts'])
    expect((await run(['config', '--source', 'environment'])).out).toBe('Nothing of the kind.\n')
    expect((await run(['config', '--changed'])).out).toMatch(/^webhook\.max_attempts +4 +options +1\b/m)
  })

  it('of an unknown key ends with 1', async () => {
    const { exitCode, err } = await run(['config', 'webhok'])
    expect(exitCode).toBe(1)
    expect(err).toContain('There is no configuration key "webhok".')
  })
})

describe('keys', () => {
  it('generate prints a new entry of a ring, another one each time', async () => {
    const first = await runCommand(async () => expect.unreachable('no host is needed'), ['keys', 'generate'])
    expect(first).toMatchObject({ exitCode: 0, err: '' })
    const second: { kid: string; key: string } = (await run(['keys', 'generate', '--json'])).json()
    expect(second.key.startsWith(`${second.kid}:`)).toBe(true)
    expect(second.key).not.toBe(first.out.trim())
    for (const key of [first.out.trim(), second.key]) {
      const made = createIntegrations({ database: database.url, encryptionKeys: key })
      await made.close()
    }
  })

  it('status, rotate --dry-run, rotate: the old key becomes removable', async () => {
    const before = await run(['keys', 'status', '--json'])
    const rows = (before.json() as { keys: { rows: number }[] }).keys[0]?.rows
    expect(rows).toBeGreaterThan(0)
    expect(before.json()).toEqual({ primary: 'old', keys: [{ kid: 'old', rows, in_ring: true, removable: false }] })

    const rotating = testIntegrations(database.url, { encryptionKeys: [NEW, OLD], providers: { demo: {}, other: {} } })
    try {
      const dry = await runCommand(rotating.integrations, ['keys', 'rotate', '--dry-run', '--json'])
      expect(dry.json()).toMatchObject({ primary: 'new', reencrypted: rows, failed: 0 })
      expect((await run(['keys', 'status', '--json'])).json()).toMatchObject({ keys: [{ kid: 'old', rows }] })
      const done = await runCommand(rotating.integrations, ['keys', 'rotate'])
      expect(done).toMatchObject({ exitCode: 0, err: '' })
      expect(done.out).toContain(`Re-encrypted: ${rows}.`)
      const noted =
        await test.sql`select action, target, integration_id from integration_audit where action = 'keys rotate'`
      expect([...noted]).toEqual([{ action: 'keys rotate', target: 'keys', integration_id: null }])
      const after = await runCommand(rotating.integrations, ['keys', 'status', '--json'])
      expect(after.json()).toEqual({
        primary: 'new',
        keys: [
          { kid: 'new', rows, in_ring: true, removable: false },
          { kid: 'old', rows: 0, in_ring: true, removable: true },
        ],
      })
    } finally {
      await rotating.close()
    }
  })

  it('status tells of a ring that does not fit, where every other command stops', async () => {
    const stranger = testIntegrations(database.url, { encryptionKeys: OLD })
    try {
      const status = await runCommand(stranger.integrations, ['keys', 'status', '--json'])
      expect(status.exitCode).toBe(0)
      expect(status.err).toContain('Rows are written with keys that the ring lacks: new.')
      expect((await runCommand(stranger.integrations, ['list', '--json'])).json()).toMatchObject({
        error: { code: 'encryption_key_mismatch' },
      })
    } finally {
      await stranger.close()
    }
  })
})
