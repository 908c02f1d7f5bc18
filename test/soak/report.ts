/** What a soak says at its end. */
import type { Judged, Unit } from './judge.ts'
import type { Soak } from './soak.ts'

const MARKS = { flat: '✓', grows: '✗', undecided: '?' } as const

/** One line a quantity: verdict, level, growth with the ends of its interval, and what is allowed. */
export function soakLines({ judged, webhooks, unansweredStarts, faults }: Soak): string[] {
  const width = Math.max(...judged.map(({ name }) => name.length))
  return [
    ...judged.map((one) => `${MARKS[one.verdict]} ${one.verdict.padEnd(9)} ${one.name.padEnd(width)}  ${figures(one)}`),
    `${faults.length === 0 ? '✓' : '✗'} ${webhooks.answered} webhooks answered 2xx, ${webhooks.handled} handled`,
    ...(unansweredStarts === 0 ? [] : [`  ${unansweredStarts} starts of a sync that Temporal did not answer in time`]),
    ...faults.map((fault) => `    ${fault}`),
  ]
}

export function isFlat({ judged, faults }: Soak): boolean {
  return faults.length === 0 && judged.every(({ verdict }) => verdict === 'flat')
}

function figures({ unit, bound, slope, growth, allowed, measurements }: Judged): string {
  if (slope === null || growth === null || allowed === null) return `${measurements} measurements are too few`
  const of = (value: number): string => signed(value, unit)
  return `${worded(slope.level, unit)}; ${of(growth.estimate)} a ${bound.per} (95 %: ${of(growth.lowest)} to ${of(growth.highest)}), allowed ${of(allowed)}`
}

const signed = (value: number, unit: Unit): string => `${value < 0 ? '-' : '+'}${worded(Math.abs(value), unit)}`

function worded(value: number, unit: Unit): string {
  switch (unit) {
    case 'bytes':
      return value < 2 ** 20 ? `${(value / 2 ** 10).toFixed(1)} KiB` : `${(value / 2 ** 20).toFixed(1)} MiB`
    case 'share':
      return `${(value * 100).toFixed(1)} %`
    case 'ms':
      return `${value.toFixed(1)} ms`
    case 'count':
      return value.toFixed(1)
  }
}
