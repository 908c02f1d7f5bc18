import { z } from 'zod'
import type { Integrations } from '../../create-integrations.ts'
import { plain } from '../cli/plain.ts'
import { command, route } from '../command.ts'
import { choice, withDefault } from '../fields.ts'
import { all } from '../shapes.ts'

type Finding = Awaited<ReturnType<Integrations['admin']['doctor']>>[number]
type Status = Finding['status']

const ORDER = ['fault', 'warning', 'skipped', 'ok'] as const satisfies readonly Status[]
const LABEL: Readonly<Record<Status, string>> = { fault: 'FAULT', warning: 'WARNING', skipped: 'skipped', ok: 'ok' }

export const doctor = command({
  name: 'doctor',
  topic: 'Set up',
  summary: 'Looks for what is wrong and names the command that mends it; changes nothing.',
  examples: ['integrations doctor', 'integrations doctor --fail-on warning', 'integrations doctor --json'],
  // It must also run where Postgres is down, the tables are behind or the keys do not match.
  needs: 'host',
  fields: { failOn: withDefault(choice('exit code 1 from this on', ['fault', 'warning'], 'status'), 'fault') },
  output: z.object({
    ok: z.boolean(),
    findings: z.array(
      z.object({
        ...all(z.string(), 'check', 'message'),
        status: z.enum(ORDER),
        remedy: z.string().nullable().describe('The command that mends it.'),
      }),
    ),
  }),
  routes: [
    route({
      method: 'get',
      path: '/doctor',
      fields: {},
      run: async ({ integrations }) => diagnosis(await integrations.admin.doctor()),
    }),
  ],
  async run({ integrations, progress }, { failOn }) {
    progress('Looking …')
    const found = diagnosis(await integrations.admin.doctor())
    const failed = !found.ok || (failOn === 'warning' && found.findings.some(({ status }) => status === 'warning'))
    return { found, failed }
  },
  document: ({ found }) => found,
  show: ({ found }) => report(found.findings),
  hasFailed: ({ failed }) => failed,
})

const diagnosis = (findings: readonly Finding[]) => ({
  ok: !findings.some(({ status }) => status === 'fault'),
  findings,
})

/** What is wrong first, each with its command on a line of its own, to be read in a narrow terminal and pasted whole. */
function report(findings: readonly Finding[]): string {
  const sorted = [...findings].sort((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status))
  const width = Math.max(...sorted.map(({ check }) => check.length))
  const lines = sorted.flatMap(({ check, status, message, remedy }) => [
    `${LABEL[status].padEnd(8)} ${check.padEnd(width)}  ${plain(message)}`,
    ...(remedy === null ? [] : [`  ${plain(remedy)}`, '']),
  ])
  return [summary(findings), '', ...lines].join('\n')
}

function summary(findings: readonly Finding[]): string {
  const count = (status: Status): number => findings.filter((finding) => finding.status === status).length
  const said = (status: Status, noun: string): string => `${count(status)} ${noun}${count(status) === 1 ? '' : 's'}`
  if (count('fault') + count('warning') === 0) return `All is well: ${said('ok', 'check')} without a finding.`
  return `${said('fault', 'fault')}, ${said('warning', 'warning')}, ${count('skipped')} skipped, ${count('ok')} ok.`
}
