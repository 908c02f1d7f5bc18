import { z } from 'zod'
import type { Integrations } from '../../create-integrations.ts'
import { plain } from '../cli/plain.ts'
import type { Columns } from '../command.ts'
import { columns, command, route } from '../command.ts'
import { choice, optional, whole, withDefault } from '../fields.ts'
import { all, moment, rowId } from '../shapes.ts'

type Finding = Awaited<ReturnType<Integrations['admin']['doctor']>>[number]
type Shown = Columns<Finding>
type Status = Finding['status']
type Diagnosis = NonNullable<Awaited<ReturnType<Integrations['admin']['diagnosis']>>>

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
        integration_id: rowId.nullable().describe('The integration it is about; null: no single one.'),
        stream: z.string().nullable(),
        since: moment.nullable(),
      }),
    ),
  }),
  routes: [
    route({
      method: 'get',
      path: '/doctor',
      fields: {
        maxAge: optional(
          whole('a look of this process that is not older will do; without it the doctor looks now', {
            max: 3_600,
            placeholder: 'seconds',
          }),
        ),
      },
      async run({ integrations }, { maxAge = 0 }) {
        const { findings } = (await integrations.admin.diagnosis({ maxAgeSeconds: maxAge })) as Diagnosis
        return diagnosis(findings)
      },
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
  findings: findings.map(columns),
})

/** What is wrong first, each with its command on a line of its own, to be read in a narrow terminal and pasted whole. */
function report(findings: readonly Shown[]): string {
  const sorted = [...findings].sort((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status))
  const width = Math.max(...sorted.map(({ check }) => check.length))
  const lines = sorted.flatMap(({ check, status, message, remedy }) => [
    `${LABEL[status].padEnd(8)} ${check.padEnd(width)}  ${plain(message)}`,
    ...(remedy === null ? [] : [`  ${plain(remedy)}`, '']),
  ])
  return [summary(findings), '', ...lines].join('\n')
}

function summary(findings: readonly Shown[]): string {
  const count = (status: Status): number => findings.filter((finding) => finding.status === status).length
  const said = (status: Status, noun: string): string => `${count(status)} ${noun}${count(status) === 1 ? '' : 's'}`
  if (count('fault') + count('warning') === 0) return `Nothing to do: ${said('ok', 'check')} without a finding.`
  return `${said('fault', 'fault')}, ${said('warning', 'warning')}, ${count('skipped')} skipped, ${count('ok')} ok.`
}
