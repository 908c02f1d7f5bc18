import { describe, expect, it } from 'vitest'
import type { Ran } from './run.ts'
import { runCommand } from './run.ts'

/** What needs no host must not load it. */
async function run(...words: string[]): Promise<Ran & { loaded: boolean }> {
  let loaded = false
  const ran = await runCommand(async () => {
    loaded = true
    throw new Error('this host is not to be loaded')
  }, words)
  return { ...ran, loaded }
}

const COMMANDS = [
  'migrate',
  'doctor',
  'config',
  'keys',
  'schedules',
  'install',
  'list',
  'show',
  'enable',
  'disable',
  'health',
  'stats',
  'evaluate-failures',
  'incidents',
  'delete',
  'erase',
  'sync',
  'sync-progress',
  'pause-sync',
  'resume-sync',
  'cancel-sync',
  'list-sync-runs',
  'show-sync-run',
  'list-failed-items',
  'retry-sync-item',
  'skip-sync-item',
  'advance-cursor',
  'list-webhooks',
  'show-webhook',
  'replay-webhook',
  'dismiss-webhook',
  'recover-webhooks',
  'reconcile-webhooks',
  'rotate-webhook-secret',
  'find-orphans',
  'prune',
  'notifications',
  'make-provider',
  'bundle-workflows',
  'completion',
]

describe('help', () => {
  it('names every command, the exit codes and where the host is looked for', async () => {
    const { exitCode, out, err, loaded } = await run('--help')
    expect({ exitCode, err, loaded }).toEqual({ exitCode: 0, err: '', loaded: false })
    for (const command of COMMANDS) expect(out).toMatch(new RegExp(`^ {2}${command}\\b`, 'm'))
    expect(out).toContain('INTEGRATIONS_CONFIG')
    expect(out).toContain('Exit codes: 0 done')
  })

  it('of each command has a summary, --json and examples, under both names', async () => {
    for (const command of COMMANDS) {
      const short = await run(command, '--help')
      expect(short, command).toMatchObject({ exitCode: 0, err: '', loaded: false })
      expect(short.out).toContain(`Usage: integrations ${command}`)
      expect(short.out, command).toContain('--json')
      expect(short.out, command).toMatch(/Examples:\n {2}\$ .*integrations /)
      expect((await run(`integrations:${command}`, '--help')).out).toBe(short.out)
      expect((await run('help', command)).out).toBe(short.out)
    }
  })

  it('is what a bare `integrations` prints, as an error', async () => {
    const { exitCode, out, err } = await run()
    expect({ exitCode, out }).toEqual({ exitCode: 1, out: '' })
    expect(err).toContain('Usage: integrations')
  })
})

describe('--version', () => {
  it("prints the package's", async () => {
    const { exitCode, out } = await run('--version')
    expect(exitCode).toBe(0)
    expect(out).toMatch(/^\d+\.\d+\.\d+\n$/)
  })
})

describe('bad input', () => {
  const TABLE: [string, string[], string][] = [
    ['an unknown command', ['snyc'], "unknown command 'snyc'"],
    ['an unknown command, with the nearest', ['snyc'], 'Did you mean sync?'],
    ['an unknown option', ['sync', '--integration', '1', '--hard'], "unknown option '--hard'"],
    ['an unknown option, with the nearest', ['migrate', '--dryrun'], 'Did you mean --dry-run?'],
    ['too many words', ['migrate', 'now'], 'too many arguments'],
    ['a watch of no integration', ['sync', '--watch'], '--watch goes with --integration, which was not given'],
    [
      'a backfill of no integration',
      ['sync', '--from', '2031-06-01T12:00:00Z', '--to', '2031-06-02T12:00:00Z'],
      '--from, --to goes with --integration',
    ],
    [
      'a watch and a dry run',
      ['sync', '--integration', '7', '--watch', '--dry-run'],
      'is allowed; --watch, --dry-run were given',
    ],
    [
      'a dry run of a backfill',
      ['sync', '--integration', '7', '--dry-run', '--from', '2031-06-01T12:00:00Z'],
      'is allowed; --dry-run, --from and --to were given',
    ],
    ['a limit of a run', ['sync', '--integration', '7', '--limit', '5'], '--limit goes with --dry-run'],
    [
      'a sample of too many',
      ['sync', '--integration', '7', '--dry-run', '--limit', '101'],
      'from 1 to 100 is allowed, "101" was given',
    ],
    ['a sample of none', ['sync', '--integration', '7', '--dry-run', '--limit', '0'], '"0" was given'],
    [
      'a backfill without its end',
      ['sync', '--integration', '7', '--from', '2031-06-01T12:00:00Z'],
      'go together; only --from was given',
    ],
    [
      'a backfill without its beginning',
      ['sync', '--integration', '7', '--to', '2031-06-01T12:00:00Z'],
      'go together; only --to was given',
    ],
    [
      'a backfill that ends where it begins',
      ['sync', '--integration', '7', '--from', '2031-06-01T12:00:00Z', '--to', '2031-06-01T14:00:00+02:00'],
      '--to is a moment after --from',
    ],
    ['another status of an incident', ['incidents', '--status', 'failing'], 'open, closed'],
    ['a name for an incident', ['incidents', 'last'], '"last" was given'],
    ['no integration to pause', ['pause-sync'], "missing required argument 'id'"],
    ['a name for a run', ['show-sync-run', 'last'], '"last" was given'],
    ['another status of a run', ['list-sync-runs', '--status', 'pending'], 'processing, success, partial, failed'],
    ['a date for a moment', ['list-failed-items', '--since', '2031-06-01'], '"2031-06-01" was given'],
    ['no item to retry', ['retry-sync-item'], 'Give the ids of failed or waiting items, or all of a run by --run'],
    ['items and a run', ['retry-sync-item', '1', '2', '--run', '3'], 'not both: 1, 2 and --run 3 were given'],
    ['one bad item among good ones', ['retry-sync-item', '1', 'x'], '"x" was given'],
    ['no tries', ['retry-sync-item', '1', '--tries', '0'], 'from 1 to 1000 is allowed, "0" was given'],
    ['too many tries', ['retry-sync-item', '1', '--tries', '1001'], '"1001" was given'],
    ['two items to skip', ['skip-sync-item', '1', '2'], 'too many arguments'],
    ['a cursor that is no JSON', ['advance-cursor', '7', '--to', '2031-06-01'], 'a text in quotes of its own'],
    [
      'a cursor with a long number',
      ['advance-cursor', '7', '--to', '{"id":12345678901234567890}'],
      'of more than 15 digits',
    ],
    ['a cursor and a reset', ['advance-cursor', '7', '--to', '1', '--reset'], 'Give --to or --reset, not both'],
    ['force for nothing', ['advance-cursor', '7', '--force'], '--force goes with --to or --reset'],
    [
      'a reset with a limit',
      ['advance-cursor', '7', '--reset', '--limit', '5'],
      '--limit goes without --to and --reset',
    ],
    [
      'a reclaim with a cursor',
      ['advance-cursor', '7', '--to', '1', '--reclaim-stale'],
      '--reclaim-stale goes without',
    ],
    ['no id', ['show'], "missing required argument 'id'"],
    ['an option without its value', ['sync', '--integration'], 'argument missing'],
    ['a name for an id', ['sync', '--integration', 'github'], '"github" was given'],
    ['zero', ['show', '0'], '"0" was given'],
    ['a negative number', ['sync', '--integration=-1'], '"-1" was given'],
    ['a fraction', ['enable', '1.5'], '"1.5" was given'],
    ['a leading zero', ['disable', '01'], '"01" was given'],
    ['a hexadecimal number', ['delete', '0x10'], '"0x10" was given'],
    ['an exponent', ['erase', '1e3'], '"1e3" was given'],
    ['nothing', ['show', ''], '"" was given'],
    ['a space', ['show', ' 1'], '" 1" was given'],
    ['a line break', ['show', '1\n'], 'was given'],
    ['more than a number holds', ['show', '9007199254740992'], '"9007199254740992" was given'],
    ['seventeen digits', ['show', '10000000000000000'], '"10000000000000000" was given'],
    ['a limit of zero', ['list', '--limit', '0'], 'a whole number of at least 1 is allowed, "0" was given'],
    ['a limit that is none', ['list', '--limit', 'all'], '"all" was given'],
    ['an owner without an id', ['list', '--owner', 'team'], 'such as team:7, "team" was given'],
    ['an owner with a bad id', ['list', '--owner', 'team:x'], '"team:x" was given'],
    ['another health', ['list', '--health', 'ill'], 'Allowed choices are healthy, degraded, failing, disabled'],
    ['active and inactive', ['list', '--active', '--inactive'], 'active and inactive do not go together'],
    ['another source', ['config', '--source', 'file'], 'Allowed choices are default, options, environment'],
    ['another action on keys', ['keys', 'drop'], 'Allowed choices are status, generate, rotate'],
    ['a dry run of what changes nothing', ['keys', 'generate', '--dry-run'], '--dry-run goes with `keys rotate`'],
    ['neither a webhook nor a choice', ['replay-webhook', '--yes'], 'Give the id of a webhook, or choose many by'],
    ['a webhook and a choice', ['replay-webhook', '7', '--status', 'failed'], 'not both: 7 and --status were given'],
    [
      'neither a webhook nor a choice to dismiss',
      ['dismiss-webhook', '--undo'],
      'Give the id of a webhook, or choose many by',
    ],
    [
      'a webhook and a choice to dismiss',
      ['dismiss-webhook', '7', '--limit', '1'],
      'not both: 7 and --limit were given',
    ],
    ['a webhook and a dry run', ['replay-webhook', '7', '--dry-run'], 'not both: 7 and --dry-run were given'],
    ['a status that is not settled', ['replay-webhook', '--status', 'pending'], 'choices are failed, processed'],
    ['another status', ['list-webhooks', '--status', 'lost'], 'pending, processing, processed, failed'],
    ['a moment without its offset', ['list-webhooks', '--since', '2031-06-01'], '"2031-06-01" was given'],
    ['a name for a webhook', ['show-webhook', 'last'], '"last" was given'],
    ['an interval of zero', ['install', 'demo', '--sync-interval', '0'], '"0" was given'],
    ['an identifier that a URL would take for an id', ['make-provider', '42'], 'not all digits, "42" was given'],
    ['an unknown part of a provider', ['make-provider', 'acme', '--with', 'mail'], 'or none, are allowed, "mail" was'],
    ['another shell', ['completion', 'tcsh'], 'Allowed choices are bash, zsh, fish'],
  ]

  it.each(TABLE)('%s ends with 1 before the host is loaded, as one document with --json', async (_, words, said) => {
    const { exitCode, out, err, loaded } = await run(...words)
    expect({ exitCode, out, loaded }).toEqual({ exitCode: 1, out: '', loaded: false })
    expect(err).toContain(said)
    expect(err).not.toMatch(/^\s+at /m)
    // Before the command's words: after them it would be taken for the value that is missing.
    const document = await run('--json', ...words)
    expect(document).toMatchObject({ exitCode: 1, err: '', loaded: false })
    expect(document.json()).toEqual({ error: { code: 'usage', message: expect.stringContaining(said) } })
    expect(document.out.trimEnd()).not.toContain('\n')
  })

  it('says what an id is', async () => {
    expect((await run('show', 'x')).err).toContain('an id is a positive whole number of at most 9007199254740991')
  })

  it.each([
    [['install', 'demo', '--credentials=token=hunter2hunter2']],
    [['install', 'demo', '--credentials=token=hunter2\nhunter2hunter2']],
    [['--json', 'install', 'demo', '--credential-token=hunter2hunter2']],
  ])('%j does not repeat what may be a secret', async (words) => {
    const { exitCode, out, err } = await run(...words)
    expect(exitCode).toBe(1)
    expect(out + err).toContain("unknown option '--credential")
    expect(out + err).not.toContain('hunter2')
  })

  it('strips what would move the cursor of a terminal', async () => {
    const { err } = await run('show', 'x\u001b[2J\u009b2J\u202e')
    expect(err).toContain('"x[2J2J" was given')
  })

  it('is what --json without a command is', async () => {
    const { exitCode, json } = await run('--json')
    expect(exitCode).toBe(1)
    expect(json()).toEqual({ error: { code: 'usage', message: expect.stringContaining('A command is missing') } })
  })
})

describe('a failure that is none of ours', () => {
  it('shows its stack, and with --json one document beside it', async () => {
    const broken = async (): Promise<never> => {
      throw new TypeError('the host has a bug')
    }
    const plain = await runCommand(broken, ['list'])
    expect(plain).toMatchObject({ exitCode: 1, out: '' })
    expect(plain.err).toMatch(/^TypeError: the host has a bug\n\s+at /)
    const json = await runCommand(broken, ['list', '--json'])
    expect(json.exitCode).toBe(1)
    expect(json.json()).toEqual({ error: { code: 'unexpected_error', message: 'TypeError: the host has a bug' } })
  })
})
