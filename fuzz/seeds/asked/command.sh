cd x && python t.py --cuda 3 --llm a > log 2>&1; for i in 1 2; do torchrun --cuda=0 "a $(b `c`)" <<E
x
E
done # end
