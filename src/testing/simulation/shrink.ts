/** Makes a plan that fails smaller, as long as the same invariant breaks: by leaving parts out, never by adding any. */
import type { Plan, RunStep, Step } from './plan.ts'
import type { Played } from './plan-player.ts'

/** Bounds the time of one shrinking. The smallest plan until then is the result. */
const MOST_PLAYS = 300

/** @param breaks plays a plan; null: the invariant holds */
export async function shrunk(
  plan: Plan,
  first: Played,
  breaks: (plan: Plan) => Promise<Played | null>,
): Promise<{ readonly plan: Plan; readonly played: Played }> {
  let best = { plan, played: first }
  let plays = 0
  for (;;) {
    const before = best.plan
    for (const smaller of smallerPlans(best.plan)) {
      if (plays === MOST_PLAYS) return best
      plays += 1
      const played = await breaks(smaller)
      if (played === null) continue
      best = { plan: smaller, played }
      break
    }
    if (best.plan === before) return best
  }
}

/** The boldest first: halves, single steps, then parts of steps. */
function* smallerPlans(plan: Plan): Generator<Plan> {
  const { steps } = plan
  for (let size = steps.length >> 1; size >= 1; size >>= 1)
    for (let at = 0; at + size <= steps.length; at += size)
      yield { ...plan, steps: [...steps.slice(0, at), ...steps.slice(at + size)] }
  if (plan.skewSeconds !== undefined) yield { steps }
  for (const [at, step] of steps.entries())
    for (const smaller of smallerSteps(step)) yield { ...plan, steps: steps.with(at, smaller) }
}

function* smallerSteps(step: Step): Generator<Step> {
  const { afterSeconds, ...atOnce } = step
  if (afterSeconds !== undefined) yield atOnce
  if ('change' in step) {
    const { delivery, ...plain } = step
    if (delivery === undefined) return
    yield plain
    if (Object.keys(delivery).length < 2) return
    yield { ...plain, delivery: { twice: true } }
    yield { ...plain, delivery: { lateSeconds: delivery.lateSeconds as number } }
    return
  }
  const { newestFirst, ...inOrder } = step
  if (newestFirst === true) yield inOrder
  for (const at of (step.faults ?? []).keys()) yield withFaults(step, (step.faults ?? []).toSpliced(at, 1))
}

function withFaults({ faults: _, ...step }: RunStep, faults: RunStep['faults']): RunStep {
  return faults === undefined || faults.length === 0 ? step : { ...step, faults }
}
