/** A bench's targets with their medians, as the terminal shows them. */
import { rounded } from '../frame.ts'
import type { FoldedBench } from './fold.ts'

export function table({ targets }: FoldedBench): string {
  return targets
    .map(({ name, value, goal, met, repeats, by, figure }) => {
      const unit = by === 'ratio' ? '' : ` ${figure.unit}`
      const after = repeats.length === 0 ? '' : `, after ${repeats.length} repeats`
      return `${met ? 'met    ' : 'NOT MET'} ${name} ${goal}${unit}: ${rounded(value)}${after}`
    })
    .join('\n')
}
