/** What a campaign says at its end, and what it writes down. */
import { writeFile } from 'node:fs/promises'
import { arch, cpus, platform, totalmem } from 'node:os'
import { join } from 'node:path'
import type { Fault, Happened } from '../inbox-faults.ts'
import { told } from '../inbox-faults.ts'
import type { Campaign } from './campaign.ts'
import type { Verdict } from './verdict.ts'

/** Of a broken promise, on the screen; the file has all. */
const SHOWN = 5
const SHOWN_LENGTH = 400

export function verdictLines(verdicts: readonly Verdict[]): string[] {
  const width = Math.max(...verdicts.map(({ promise }) => promise.length))
  return verdicts.flatMap(({ promise, counts, broken }) => [
    `${broken.length === 0 ? '✓' : '✗'} ${promise.padEnd(width)}  ${counts}`,
    ...broken.slice(0, SHOWN).map((line) => `    ${line.slice(0, SHOWN_LENGTH)}`),
    ...(broken.length > SHOWN ? [`    and ${broken.length - SHOWN} more`] : []),
  ])
}

/** `12 kill, 3 fill`, with their targets. */
export function faultsByKind(story: readonly Happened[]): string[] {
  const kinds = new Map<Fault['kind'], Map<string, number>>()
  for (const { fault } of story) {
    const what = 'backend' in fault ? `${fault.target}-${fault.backend}` : fault.target
    const targets = kinds.get(fault.kind) ?? new Map<string, number>()
    targets.set(what, (targets.get(what) ?? 0) + 1)
    kinds.set(fault.kind, targets)
  }
  return [...kinds].map(([kind, targets]) => {
    const all = [...targets.values()].reduce((sum, times) => sum + times, 0)
    return `${String(all).padStart(5)} ${kind.padEnd(9)} ${[...targets].map(([what, times]) => `${what} ${times}`).join(', ')}`
  })
}

const TIME = /^(\S+) .*"time":"([^"]+)"/
const JUMP_MS = 5_000

/** What shows in the lines of the processes: a campaign whose faults no process noticed has tested nothing. */
function signsOf(lines: readonly string[]): string {
  const with_ = (what: string): number => lines.filter((line) => line.includes(what)).length
  const lastMs = new Map<string, number>()
  let jumps = 0
  for (const line of lines) {
    const [, name, time] = TIME.exec(line) ?? []
    if (name === undefined || time === undefined) continue
    const atMs = Date.parse(time)
    // Backwards, or forwards by more than any standstill.
    const passedMs = atMs - (lastMs.get(name) ?? atMs)
    if (passedMs < -JUMP_MS || passedMs > 60_000 + JUMP_MS) jumps += 1
    lastMs.set(name, atMs)
  }
  return [
    `${with_('No space left on device')} lines about a full disk`,
    `${jumps} jumps of clocks`,
    `${with_('"webhook.worker_lost"') + with_('"inbox.pump_lost"')} workers taken for lost`,
    `${with_('"circuit')} lines about circuits`,
    `${with_('"request.outcome_lost"')} outcomes that could not be stored`,
  ].join(', ')
}

export const machineLine = (): string =>
  `${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GB, ${platform()} ${arch()}, Node ${process.versions.node}`

/** @returns path of the story, with everything that was broken and what each part said last */
export async function writeStory(
  folder: string,
  name: string,
  { story, verdicts, operators, sent, stack }: Campaign,
  head: readonly string[],
): Promise<string> {
  const counts = (map: ReadonlyMap<string, number>): string => JSON.stringify(Object.fromEntries(map))
  const path = join(folder, `${name}.txt`)
  const text = [
    ...head,
    ...verdicts.flatMap(({ promise, counts: counted, broken }) => [
      `${broken.length === 0 ? '✓' : '✗'} ${promise}  ${counted}`,
      ...broken.map((line) => `    ${line}`),
    ]),
    'faults:',
    ...faultsByKind(story),
    told(story),
    `signs: ${signsOf(stack.lines)}`,
    `answers to the sender: ${JSON.stringify(sent.answers)}`,
    `requests outside, by trouble: ${counts(stack.outside.troubles)}`,
    `acts: ${counts(operators.acts)}`,
    `acts that failed, and were tried again or given up: ${counts(operators.failures)}`,
    '',
  ]
  await writeFile(path, text.join('\n'))
  if (verdicts.some(({ broken }) => broken.length > 0))
    await writeFile(join(folder, `${name}.log`), `${stack.lines.join('\n')}\n`)
  return path
}
