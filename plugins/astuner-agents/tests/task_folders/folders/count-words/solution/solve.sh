wc -w < poem.txt | tr -d ' ' > /app/count.txt
