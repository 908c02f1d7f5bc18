/** The script in a real bash: what a Tab offers. */
import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { runCommand } from './run.ts'

async function scriptFor(shell: string): Promise<string> {
  const { exitCode, out, err } = await runCommand(
    async () => expect.unreachable('no host is needed'),
    ['completion', shell],
  )
  expect({ exitCode, err }).toEqual({ exitCode: 0, err: '' })
  return out
}

/** Presses Tab at the end of each line, as readline would. */
async function offered(...lines: string[]): Promise<string[][]> {
  const ask = `
    complete -p integrations >/dev/null || exit 1
    while IFS= read -r COMP_LINE; do
      COMP_POINT=\${#COMP_LINE}; COMPREPLY=()
      _integrations_complete
      echo "\${COMPREPLY[*]}"
    done`
  const answer = execFileSync('bash', ['--norc', '-c', `${await scriptFor('bash')}\n${ask}`], {
    input: lines.map((line) => `${line}\n`).join(''),
    encoding: 'utf8',
  })
  return answer
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split(' ').filter((word) => word !== ''))
}

describe('bash', () => {
  it.each<[string, string[]]>([
    ['integrations mi', ['migrate']],
    [
      'integrations s',
      [
        ...['schedules', 'show', 'show-sync-item', 'show-sync-run', 'skip-sync-item', 'sync-interval'],
        ...['sync-progress', 'sync', 'show-webhook', 'search-payloads', 'snooze-incident', 'stats', 'simulate'],
      ],
    ],
    ['integrations list-sync-runs --status p', ['processing', 'partial']],
    ['integrations migrate --d', ['--dry-run']],
    ['integrations integrations:migrate --d', ['--dry-run']],
    ['integrations --json migrate --d', ['--dry-run']],
    ['integrations list --health ', ['healthy', 'degraded', 'failing', 'disabled']],
    ['integrations list --health d', ['degraded', 'disabled']],
    ['integrations list --provider ', []],
    ['integrations list --provider github --st', ['--stale']],
    ['integrations keys r', ['rotate']],
    ['integrations replay-webhook --status ', ['failed', 'processed']],
    ['integrations config --source e', ['environment']],
    ['integrations completion b', ['bash']],
    ['integrations nonsense --', []],
  ])('%j', async (line, words) => {
    const [found] = await offered(line)
    expect(found).toEqual(words)
  })

  it('knows every command, and every option of each', async () => {
    const [commands = []] = await offered('integrations ')
    expect(commands).toContain('doctor')
    const names = commands.filter((word) => !word.startsWith('--'))
    const options = await offered(...names.map((name) => `integrations ${name} --`))
    for (const [index, name] of names.entries()) {
      const { out } = await runCommand(async () => expect.unreachable(), [name, '--help'])
      const inHelp = [...out.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, flag]) => flag)
      expect(options[index], name).toEqual(inHelp)
    }
  })
})

describe.each(['zsh', 'fish'])('%s', (shell) => {
  it('has every command and option in its script', async () => {
    const script = await scriptFor(shell)
    const [commands = []] = await offered('integrations ')
    const names = commands.filter((word) => !word.startsWith('--'))
    const options = await offered(...names.map((name) => `integrations ${name} --`))
    for (const [index, name] of names.entries()) {
      expect(script).toMatch(new RegExp(`\\b${name}\\b`))
      for (const flag of options[index] ?? [])
        expect(script).toContain(shell === 'fish' ? `-l ${flag.slice(2)} ` : `*${flag}[`)
    }
  })
})
