/** One campaign: everything at work at once, faults by the seed, quiet, verdicts. */
import { carryOutFaults } from '../inbox-faults.ts'
import { doctorSays } from '../inbox-scenario.ts'
import { seeded } from '../seeded-kills.ts'
import { plantOldRows } from './attic.ts'
import type { FaultKind } from './faults.ts'
import { drawCampaign } from './faults.ts'
import { sendLoad } from './load.ts'
import { operate, startOperators } from './operators.ts'
import { checkOf, comeToRest } from './quiet.ts'
import type { CampaignMachine } from './stack.ts'
import { startCampaignStack } from './stack.ts'
import type { Evidence, Verdict } from './verdict.ts'
import { judge } from './verdicts.ts'
import { watch } from './watch.ts'

const DELIVERIES_PER_SECOND = 6

export interface CampaignPlan {
  readonly seed: number
  readonly minutes: number
  readonly perMinute: number
  readonly kinds: readonly FaultKind[]
  readonly machine: CampaignMachine
  readonly say: (line: string) => void
}

export interface Campaign extends Evidence {
  readonly verdicts: readonly Verdict[]
  stop(): Promise<void>
}

/** Ends with the verdicts; the stack stands until it is stopped. */
export async function runCampaign({ seed, minutes, perMinute, kinds, machine, say }: CampaignPlan): Promise<Campaign> {
  const stack = await startCampaignStack(seeded(seed + 1), machine)
  try {
    say('everything is up')
    const operators = await startOperators(stack)
    await plantOldRows(stack)
    const doctorBefore = new Set((await doctorSays(operators)).map(checkOf))
    const seconds = minutes * 60
    const plan = drawCampaign(seeded(seed), {
      count: Math.round(minutes * perMinute),
      seconds,
      kinds,
      hasPooler: machine.hasPooler,
    })
    stack.outside.weather = 'fair'
    const watched = { looks: 0, torn: new Set<string>(), passed: new Set<string>() }
    let isOver = false
    const over = (): boolean => isOver
    const [faults, sent] = await Promise.all([
      carryOutFaults(stack, plan).finally(() => {
        isOver = true
      }),
      sendLoad(stack.doors, { random: seeded(seed + 2), perSecond: DELIVERIES_PER_SECOND, isOver: over }),
      operate(stack, operators, { random: seeded(seed + 3), isOver: over }),
      watch(stack, watched, over),
    ])
    say(`${faults.length} faults are over; waiting for the quiet`)
    const story = [...faults, ...operators.restarts].sort((a, b) => a.fromMs - b.fromMs)
    const quiet = await comeToRest(stack, operators, doctorBefore)
    const evidence: Evidence = { stack, operators, sent, story, watched, quiet }
    const verdicts = await judge(evidence)
    return {
      ...evidence,
      verdicts,
      async stop() {
        await operators.integrations.close()
        await stack.stop()
      },
    }
  } catch (error) {
    await stack.stop()
    throw error
  }
}
