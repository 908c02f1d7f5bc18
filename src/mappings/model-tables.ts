/** Whether the tables of the host's models are there as the models know them. Rule: docs/behaviour/mappings.md. */

import type { Framework } from '../framework/context.ts'
import { errorLine } from '../framework/logger.ts'
import { withTimeLimit } from '../framework/waiting.ts'
import type { MappedModel } from '../providers/mapped-model.ts'

const LIMIT_SECONDS = 10

export interface ModelProblem {
  readonly model: string
  /** What is missing, in words. */
  readonly problem: string
}

/** Never throws: a model that can't be asked is a problem, too. */
export async function modelProblems(framework: Framework): Promise<ModelProblem[]> {
  const found = await Promise.all(
    [...framework.models].map(async ([model, mapped]) =>
      (await problemsOf(framework, mapped)).map((problem) => ({ model, problem })),
    ),
  )
  return found.flat()
}

/** At a worker's start: the lines say in advance of what its listeners will fail. */
export async function reportUnfitModels(framework: Framework): Promise<void> {
  for (const { model, problem } of await modelProblems(framework))
    framework.logger.error(
      { event: 'worker.model_unfit', model, problem },
      "a model of the host does not fit its table: listeners that use it fail until the host's own migrations are applied",
    )
}

async function problemsOf({ modelDb }: Framework, model: MappedModel): Promise<readonly string[]> {
  const late = () => new Error(`no answer within ${LIMIT_SECONDS} s`)
  try {
    return await withTimeLimit(LIMIT_SECONDS, late, async () => {
      if (model.problems !== undefined) return model.problems(modelDb)
      // One that a host wrote itself is asked for its first row: what it reads from is there, or it throws.
      await model.scan(modelDb, null, 1)
      return []
    })
  } catch (error) {
    return [`it can't be read: ${errorLine(error, 300)}`]
  }
}
