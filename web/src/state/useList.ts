// A long list of jobs for a page: read in pages, kept up by events.
import { useEffect, useRef, useState } from 'preact/hooks'
import { readJobs, type JobFilter } from '../api/calls'
import type { Job } from '../api/jobs'
import type { Event } from '../api/service'
import type { Page } from '../api/http'
import { PagedList, type Shown } from './list'
import { listen } from './live'

export interface JobList extends Shown<Job> {
  look: (first: number, last: number) => void
  list: PagedList<Job> | null
}

const NOTHING: Shown<Job> = { rows: [], more: true, loading: true, problem: null }

const concernsJobs = (event: Event) => event.kind === 'job' || event.kind === 'queue' || event.kind === 'machine'

/** `key` tells one question from another. */
export function useList(key: string, read: (cursor: string) => Promise<Page<Job>>): JobList {
  const [shown, setShown] = useState<{ key: string; shown: Shown<Job> }>({ key, shown: NOTHING })
  const list = useRef<PagedList<Job> | null>(null)
  useEffect(() => {
    const mine = new PagedList<Job>(read, (next) => setShown({ key, shown: next }))
    list.current = mine
    mine.touch()
    const forget = listen((event) => {
      if (event.kind === 'missed' || concernsJobs(event)) mine.touch()
    })
    return () => {
      mine.stop()
      forget()
    }
  }, [key])
  const current = shown.key === key ? shown.shown : { ...NOTHING, rows: shown.shown.rows }
  return { ...current, list: list.current, look: (first, last) => list.current?.look(first, last) }
}

export function useJobs(filter: JobFilter): JobList {
  return useList(JSON.stringify(filter), (cursor) => readJobs(filter, cursor))
}
