/**
 * What every bench shares: contenders measured in turn, medians, comparisons with a goal, the table and the JSON line.
 *
 * Nothing is compared across runs or machines: ours and its peers take turns in one run, A B C A B C, so that what slows the
 * machine for a while slows all of them. Method: docs/performance.md, "Method".
 */

export interface BenchOptions {
  /** Fits in 50 seconds: shorter rounds, fewer of them. */
  readonly quick: boolean
  /** Of each contender; the bench's own number when it is left out. One: `all` takes the median of several such processes. */
  readonly rounds?: number | undefined
  /** What a growth curve has at this point: rows, items or integrations. */
  readonly size?: number | undefined
  readonly say: (line: string) => void
}

/** Starts what it needs, measures, and takes down what it started. */
export type Bench = (options: BenchOptions) => Promise<Outcome>

export interface Outcome {
  readonly figures: readonly Figure[]
  readonly comparisons: readonly Comparison[]
  /** What `--quick` had no time for. */
  readonly leftOut?: readonly string[]
}

export interface Figure {
  readonly name: string
  readonly value: number
  /** Such as `calls/s` or `ms`. */
  readonly unit: string
}

export interface Goal {
  readonly direction: 'at least' | 'at most'
  readonly value: number
}

/** A figure of ours with its goal: beside a peer's, how many times as much or how much more, or by itself. */
export interface Comparison {
  readonly name: string
  readonly figure: Figure
  /** Null when the goal is absolute. */
  readonly peer: Figure | null
  readonly by: 'ratio' | 'difference' | 'itself'
  readonly value: number
  readonly goal: Goal
  readonly isMet: boolean
}

export interface Contender {
  readonly name: string
  /** One round; a call that fails fails the bench. */
  measure(): Promise<number>
}

/** Three are the fewest whose median a single bad round can't move. */
const MIN_ROUNDS = 3

/**
 * One warm-up of each, which counts for nothing, then the rounds.
 *
 * @param rounds one when the caller's caller takes the median of several processes
 * @returns each contender's median, by its name
 */
export async function inTurn(contenders: readonly Contender[], rounds: number): Promise<Map<string, number>> {
  if (!Number.isInteger(rounds) || (rounds < MIN_ROUNDS && rounds !== 1))
    throw new RangeError(`at least ${MIN_ROUNDS} rounds are allowed, or one of several processes; ${rounds} were given`)
  const measured = new Map(contenders.map(({ name }): [string, number[]] => [name, []]))
  if (measured.size < contenders.length) throw new TypeError('two contenders have the same name')
  for (const contender of contenders) await contender.measure()
  for (let round = 0; round < rounds; round += 1)
    for (const contender of contenders) measured.get(contender.name)?.push(await contender.measure())
  return new Map([...measured].map(([name, values]) => [name, median(values)]))
}

export function median(values: readonly number[]): number {
  if (values.length === 0 || values.some(Number.isNaN)) throw new RangeError('the median of nothing is not known')
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] as number
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2
}

/** @param share from 0 to 1, such as 0.99; nearest rank: a value that was measured, never one between two */
export function percentile(values: readonly number[], share: number): number {
  if (values.length === 0 || values.some(Number.isNaN)) throw new RangeError('a percentile of nothing is not known')
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] as number
}

export function compare(figure: Figure, peer: Figure, by: 'ratio' | 'difference', goal: Goal): Comparison {
  if (figure.unit !== peer.unit) throw new TypeError(`${figure.unit} can't be compared with ${peer.unit}`)
  const value = by === 'ratio' ? figure.value / peer.value : figure.value - peer.value
  const name = `${figure.name} ${by === 'ratio' ? '/' : '-'} ${peer.name}, ${goal.direction}`
  return { name, figure, peer, by, value, goal, isMet: isMet(value, goal) }
}

/** An absolute goal: so many milliseconds at most, whatever a peer would take. */
export function target(figure: Figure, goal: Goal): Comparison {
  const { name, value } = figure
  return {
    name: `${name}, ${goal.direction}`,
    figure,
    peer: null,
    by: 'itself',
    value,
    goal,
    isMet: isMet(value, goal),
  }
}

export function isMet(value: number, { direction, value: bound }: Goal): boolean {
  return direction === 'at least' ? value >= bound : value <= bound
}

const HEAD = ['figure', 'peer', 'ratio', 'target', 'met']

/** Comparisons first, then the figures that none of them shows, then what is left out. */
export function table({ figures, comparisons, leftOut = [] }: Outcome): string {
  const compared = new Set(comparisons.flatMap(({ figure, peer }) => [figure.name, peer?.name]))
  const rows = [
    ...comparisons.map((comparison) => {
      const { figure, peer, by, goal } = comparison
      return [
        worded(figure),
        peer === null ? '' : worded(peer),
        relation(comparison),
        `${goal.direction === 'at least' ? '>=' : '<='} ${goal.value}${by === 'ratio' ? '' : ` ${figure.unit}`}`,
        comparison.isMet ? 'met' : 'NOT MET',
      ]
    }),
    ...figures.filter(({ name }) => !compared.has(name)).map((figure) => [worded(figure), '', '', '', '']),
  ]
  const widths = HEAD.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)))
  const line = (cells: readonly string[]) => `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`
  const lines = [line(HEAD), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)]
  if (leftOut.length > 0) lines.push('', `Left out by --quick: ${leftOut.join('; ')}.`)
  return lines.join('\n')
}

function relation({ figure, by, value }: Comparison): string {
  if (by === 'itself') return ''
  return by === 'ratio' ? value.toFixed(2) : `+${rounded(value)} ${figure.unit}`
}

function worded({ name, value, unit }: Figure): string {
  return `${name}: ${rounded(value)} ${unit}`
}

/** Three digits that mean something; a whole number from a hundred on. */
export function rounded(value: number): string {
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString('en-US') : value.toPrecision(3)
}

/** The line of `--json`, read by `all`, and kept in files. */
export interface Printed {
  readonly name: string
  readonly machine: string
  readonly figures: readonly Figure[]
  readonly targets: readonly PrintedTarget[]
  readonly leftOut?: readonly string[]
}

export interface PrintedTarget {
  readonly name: string
  readonly value: number
  readonly goal: number
  readonly met: boolean
  readonly direction: Goal['direction']
  readonly by: Comparison['by']
  readonly figure: Figure
  readonly peer: Figure | null
}

export function jsonLine(name: string, machine: string, { figures, comparisons, leftOut }: Outcome): string {
  const plain = ({ name, value, unit }: Figure): Figure => ({ name, value, unit })
  return JSON.stringify({
    name,
    machine,
    figures: figures.map(plain),
    targets: comparisons.map(({ name, value, goal, isMet, by, figure, peer }) => ({
      name,
      value,
      goal: goal.value,
      met: isMet,
      direction: goal.direction,
      by,
      figure: plain(figure),
      peer: peer === null ? null : plain(peer),
    })),
    ...(leftOut === undefined ? {} : { leftOut }),
  } satisfies Printed)
}
