import type { Command } from 'commander'
import { Option } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import type { Frame } from './cli/frame.ts'
import { plain } from './cli/plain.ts'

type Finding = Awaited<ReturnType<Integrations['admin']['doctor']>>[number]
type Status = Finding['status']

const ORDER: readonly Status[] = ['fault', 'warning', 'skipped', 'ok']
const LABEL: Readonly<Record<Status, string>> = { fault: 'FAULT', warning: 'WARNING', skipped: 'skipped', ok: 'ok' }

/** `integrations doctor`: what is wrong, and the command that mends it. */
export function doctorCommand(frame: Frame): Command {
  return frame
    .command('doctor', 'Looks for what is wrong and names the command that mends it; changes nothing.', [
      'integrations doctor',
      'integrations doctor --fail-on warning',
      'integrations doctor --json',
    ])
    .addOption(
      new Option('--fail-on <status>', 'exit code 1 from this on').choices(['fault', 'warning']).default('fault'),
    )
    .action(
      // With nothing: it must also run where Postgres is down, the tables are behind or the keys do not match.
      frame.action(
        async ({ integrations, progress }, { failOn }: { failOn: 'fault' | 'warning' }) => {
          progress('Looking …')
          const findings = await integrations.admin.doctor()
          const ok = !findings.some(({ status }) => status === 'fault')
          const fails = !ok || (failOn === 'warning' && findings.some(({ status }) => status === 'warning'))
          return { document: { ok, findings }, text: report(findings), exitCode: fails ? 1 : 0 }
        },
        { needs: 'nothing' },
      ),
    )
}

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
