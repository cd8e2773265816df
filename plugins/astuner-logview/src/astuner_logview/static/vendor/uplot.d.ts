/** What our modules use of uPlot. */
declare class uPlot {
  constructor(options: uPlot.Options, data: uPlot.AlignedData, target: HTMLElement);
  readonly width: number;
  readonly height: number;
  readonly data: uPlot.AlignedData;
  readonly over: HTMLDivElement;
  readonly cursor: { left?: number; top?: number; idx?: number | null };
  setData(data: uPlot.AlignedData): void;
  setSize(size: { width: number; height: number }): void;
  setCursor(place: { left: number; top: number }): void;
  valToPos(value: number, scale: string): number;
  destroy(): void;
}
declare namespace uPlot {
  type AlignedData = [steps: number[], ...values: (number | null)[][]];
  interface Axis {
    stroke?: string;
    font?: string;
    size?: number | ((plot: uPlot, labels: string[] | null) => number);
    gap?: number;
    space?: number;
    incrs?: number[];
    grid?: { stroke?: string; width?: number };
    ticks?: { show?: boolean };
    values?: (plot: uPlot, ticks: number[], axis: number, space: number, increment: number) => string[];
  }
  interface Series {
    label?: string;
    stroke?: string;
    fill?: string;
    width?: number;
    alpha?: number;
    spanGaps?: boolean;
    points?: { show?: boolean; size?: number; fill?: string };
  }
  interface Options {
    width: number;
    height: number;
    padding?: [number, number, number, number];
    cursor?: object;
    legend?: { show?: boolean };
    scales?: { [name: string]: { time?: boolean; range?: (plot: uPlot, low: number | null, high: number | null) => [number, number] } };
    axes?: Axis[];
    series: Series[];
    hooks?: { setCursor?: ((plot: uPlot) => void)[] };
  }
}
export default uPlot;
