/** Asks before what can't be undone. Rule: docs/commands.md, "Questions". */
import { Refused } from '../refused.ts'
import type { HostlessContext } from './frame.ts'
import { plain } from './plain.ts'

/** @throws Refused on a no, and where nobody can be asked and `--yes` was not given */
export async function confirmOrRefuse({ terminal }: HostlessContext, question: string, yes: boolean): Promise<void> {
  if (yes) return
  if (!terminal.isInteractive)
    throw new Refused('confirmation_needed', `${question} Nobody is here to answer; give --yes to go on.`)
  if (!(await terminal.prompts.confirm(plain(question))))
    throw new Refused('confirmation_needed', 'Nothing was changed.')
}
