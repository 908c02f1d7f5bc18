import { checkPositive, checkTexts } from './stripe-arguments.ts'

/** One page of a list: https://docs.stripe.com/api/pagination */
export interface PageParams {
  /** Entries at most; Stripe allows up to 100 and gives 10 by itself. */
  readonly limit?: number | null | undefined
  /** Id after which the page begins. */
  readonly startingAfter?: string | null | undefined
  /** Id before which the page ends. */
  readonly endingBefore?: string | null | undefined
}

/** @throws InvalidArgumentException */
export function pageParams({ limit, startingAfter, endingBefore }: PageParams): {
  limit: PageParams['limit']
  starting_after: PageParams['startingAfter']
  ending_before: PageParams['endingBefore']
} {
  checkPositive({ limit })
  checkTexts({ startingAfter, endingBefore })
  return { limit, starting_after: startingAfter, ending_before: endingBefore }
}
